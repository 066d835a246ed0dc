package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollgate/handlers/worker"
	"tollgate/rediskv"
	"tollgate/wasm"
)

// setting is one value of the configuration: an environment variable and the
// flag of the same name, which wins.
type setting struct {
	Flag     string // "redis-url" is TOLLGATE_REDIS_URL
	Default  string
	Meaning  string
	Commands []string
	Required bool
}

// Env is the setting's environment variable.
func (s setting) Env() string {
	return "TOLLGATE_" + strings.ToUpper(strings.ReplaceAll(s.Flag, "-", "_"))
}

var (
	processes = []string{"serve", "work"}
	clients   = []string{
		"token", "whoami", "accounts", "perimeters", "perimeter", "quote", "pay", "payment", "payments", "capture", "refund", "cancel", "review", "ticket", "transactions", "events", "event",
		"cutoff", "export", "exports", "payout", "audit", "client", "grant", "console", "mcp",
		"webhooks", "deliveries", "attempts", "resend", "recover", "listen", "trigger", "clock", "rule", "explain", "open",
	}
	asClients = append(slices.Clone(clients), "doctor") // it is an operator's, too
)

// Settings is the whole configuration. Flags, `tollgate help serve` and the
// README's table are made from it.
var Settings = []setting{
	{
		Flag: "redis-url", Required: true, Commands: []string{"serve", "work", "check", "provision", "doctor", "history", "key", "layout", "backup", "restore", "archive", "erase"},
		Meaning: "where Redis is: redis://, rediss:// or unix://; several hosts of a cluster separated by commas; ?pool_size=50 bounds the connections to each (256, or ten for each processor)",
	},
	{
		Flag: "redis-replica-url", Commands: []string{"serve"},
		Meaning: "a replica of that Redis which is nearer than the primary: reads go there while it is less than 5 s behind; not for a cluster",
	},
	{
		Flag: "redis-wait-replicas", Default: "0", Commands: []string{"serve", "work", "provision", "doctor"},
		Meaning: "how many replicas of its master must have a change before it is acknowledged; with fewer the answer is 503, and a repeat with the same key is answered once they have it; 0 waits for none",
	},
	{
		Flag: "snapshot-dir", Commands: []string{"serve"},
		Meaning: "a folder of this instance alone, in which it keeps the configuration that it knows: with it, an instance that starts while Redis is away quotes at once; none: it waits for Redis",
	},
	{
		Flag: "issuer", Required: true, Commands: []string{"serve", "doctor"},
		Meaning: "the issuer identifier: the public URL of this service, which clients name as the audience of their assertions",
	},
	{
		Flag: "signing-key", Commands: []string{"serve", "doctor"},
		Meaning: "private JWK that signs access tokens, or the path of a file with it; several separated by commas or new lines: the first signs, all are published (tollgate key new signing). None: the service makes and rotates its own (tollgate key list)",
	},
	{
		Flag: "secret-key", Required: true, Commands: []string{"serve", "work", "doctor", "key"},
		Meaning: "32 bytes in base64, or the path of a file with them, the same for all processes: the keys that encrypt cursors, webhook secrets and signing keys are derived from it, and a process with another one does not start (tollgate key new secret)",
	},
	{
		Flag: "secret-key-previous", Commands: []string{"serve", "work", "doctor", "key"},
		Meaning: "the secret key before, while it is being rotated: what it encrypted is still read (tollgate key reseal)",
	},
	{
		Flag: "addr", Default: ":8080", Commands: []string{"serve"},
		Meaning: "address of the API: plain http without TOLLGATE_TLS_CERT, https with it",
	},
	{
		Flag: "trusted-proxies", Commands: []string{"serve", "doctor"},
		Meaning: "who ends TLS in front of serve: addresses and prefixes such as 10.0.0.0/8, separated by commas. Their X-Forwarded-Proto counts, and if the issuer is https, what came over plain http is refused",
	},
	{
		Flag: "rate-limits", Default: "tokens=60/m,writes=100/s,reads=200/s,quotes=200/s", Commands: []string{"serve", "doctor"},
		Meaning: "how many requests a client may send, where provisioning sets no others: for each kind a number per s, m or h, or off; burst=300 behind one is how many may come at once, by default twice as many; off alone for none",
	},
	{
		Flag: "tls-cert", Commands: []string{"serve", "doctor"},
		Meaning: "PEM file of the certificate and those above it: serve then answers https (TLS 1.2 or newer). It is read again when it changes",
	},
	{
		Flag: "tls-key", Commands: []string{"serve", "doctor"},
		Meaning: "PEM file of its private key; none: the key is in the file of the certificate",
	},
	{
		Flag: "metrics-addr", Default: ":9090", Commands: processes,
		Meaning: "address of /metrics (for work also /healthz and /readyz); off for none",
	},
	{
		Flag: "pprof-addr", Commands: []string{"serve", "work", "debug"},
		Meaning: "where 'tollgate debug profile' fetches profiles: an address of this machine alone, such as 127.0.0.1:6060; none: there are no profiles",
	},
	{
		Flag: "log-level", Default: "info", Commands: processes,
		Meaning: "debug, info, warn or error; logs are JSON on standard error",
	},
	{
		Flag: "traces-url", Commands: []string{"serve", "work", "dev", "doctor"},
		Meaning: "where OpenTelemetry traces go, by OTLP over HTTP, such as http://127.0.0.1:4318; none: nothing is traced",
	},
	{
		Flag: "partitions", Default: "0", Commands: []string{"serve", "work", "check", "provision"},
		Meaning: "number of partitions, fixed when a Redis is first used; 0 takes what is recorded there, else 64",
	},
	{
		Flag: "export-mib", Default: strconv.Itoa(rediskv.DefaultExportBytes >> 20), Commands: processes,
		Meaning: "how many MiB of Redis' memory the export files of one organization may take up, the same for all processes",
	},
	{
		Flag: "on-history-loss", Default: "stop", Commands: processes,
		Meaning: "what happens where Redis has lost data that it acknowledged: stop writes nothing there until 'tollgate history accept', continue begins a new history at once; payouts wait in both cases",
	},
	{
		Flag: "rules-mib", Default: strconv.Itoa(wasm.DefaultRoom >> 20), Commands: []string{"serve"},
		Meaning: "how many MiB of memory published rules may take up, compiled and with their instances; at least " + strconv.Itoa(wasm.LeastRoom>>20),
	},
	{
		Flag: "quote-max-staleness", Default: "600s", Commands: []string{"serve"},
		Meaning: "while Redis is away, how long quotes go on with a configuration that it cannot confirm; 0 for not at all",
	},
	{
		Flag: "payout-url", Commands: []string{"work", "dev"},
		Meaning: "where payouts are asked for, http or https: POST with the payout as JSON, answered with a status of paid, failed or later, and a reference; none: payouts are recorded as paid and no money moves",
	},
	{
		Flag: "payout-secret", Commands: []string{"work", "dev"},
		Meaning: "whsec_… that signs these requests as webhooks are signed; needed with a payout URL",
	},
	{
		Flag: "delivery-slots", Default: strconv.Itoa(worker.DefaultSlots), Commands: []string{"work"},
		Meaning: "how many deliveries each of these processes attempts at the same time, at least 1; each has a connection and some 40 KiB",
	},
	{
		Flag: "audit-retention", Default: worker.DefaultKeepAudit.String(), Commands: []string{"work"},
		Meaning: "how long Redis keeps entries of the audit record; 9600h are 400 days; without an archive they are removed then",
	},
	{
		Flag: "witness-url", Commands: []string{"work", "dev"},
		Meaning: "where each checkpoint of an audit record is posted to, http or https: the signed note as text; none: nobody is told",
	},
	{
		Flag: "archive-url", Commands: []string{"serve", "work", "dev", "check", "archive", "backup", "doctor", "erase"},
		Meaning: "where payments are moved that are at an end, and read again: file:///directory, or s3://bucket/prefix?region=NAME&endpoint=https://HOST with the credentials of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or a role; the same for all processes; none: they stay in Redis",
	},
	{
		Flag: "archive-copy", Commands: []string{"serve", "work", "dev", "check", "archive", "backup", "doctor", "erase"},
		Meaning: "a second place for the same, on another disk or in another bucket: everything is put in both, and what cannot be read in one is read in the other; none: there is no copy",
	},
	{
		Flag: "archive-after", Default: worker.DefaultArchiveAfter.String(), Commands: []string{"work", "dev"},
		Meaning: "how long a payment has been at an end before it is moved, at least 960h; 2160h are 90 days",
	},
	{
		Flag: "check-rate", Default: strconv.Itoa(worker.DefaultCheckRate), Commands: []string{"work"},
		Meaning: "how many objects a second each of these processes reads back and compares with all that they belong to; 0 for none",
	},
	{
		Flag: "redis-wait", Default: "30s", Commands: []string{"serve", "work", "check"},
		Meaning: "how long to wait for Redis at the start",
	},
	{
		Flag: "drain-delay", Default: "2s", Commands: []string{"serve"},
		Meaning: "after a signal, how long requests are still accepted while /readyz already says no",
	},
	{
		Flag: "shutdown-grace", Default: "10s", Commands: processes,
		Meaning: "how long running requests may take to finish after that",
	},

	{Flag: "url", Commands: asClients, Meaning: "base URL of the service"},
	{Flag: "issuer", Commands: clients, Meaning: "its issuer identifier; the base URL when it is missing"},
	{Flag: "client-id", Commands: asClients, Meaning: "the client that asks"},
	{Flag: "client-jwk", Commands: asClients, Meaning: "its private JWK, or the path of a file with it"},
	{Flag: "token", Commands: asClients[1:], Meaning: "an access token, used when there is no client key"},
	{Flag: "grant", Commands: asClients, Meaning: "the grant under which it asks, when it has several"},
	{Flag: "rule-signer", Commands: []string{"rule"}, Meaning: "the rule signer that publishes"},
	{Flag: "rule-key", Commands: []string{"rule"}, Meaning: "its private JWK, or the path of a file with it"},
	{Flag: "merchant-account", Commands: []string{"quote", "pay", "cutoff"}, Meaning: "the merchant account, when the grant covers several and has no default"},
}

// settingsOf is the settings of one command, in the order of the list.
func settingsOf(command string) []setting {
	var of []setting
	for _, s := range Settings {
		if slices.Contains(s.Commands, command) {
			of = append(of, s)
		}
	}
	return of
}

// topLevel is the name of the command right below the root that c is or stands
// under: its settings are those of everything under it.
func topLevel(c *cobra.Command) string {
	for c.HasParent() && c.Parent().HasParent() {
		c = c.Parent()
	}
	return c.Name()
}

// bind gives a command its flags and the table of them.
func (a *App) bind(c *cobra.Command) {
	of := settingsOf(c.Name())
	if len(of) == 0 {
		return
	}
	tabled := !slices.Contains(clients, c.Name())
	flags := c.Flags()
	if c.HasSubCommands() {
		flags = c.PersistentFlags()
	}
	for _, s := range of {
		usage := "$" + s.Env()
		if !tabled {
			usage = s.Meaning + " (" + usage + ")"
		}
		flags.String(s.Flag, s.Default, usage)
	}
	if tabled {
		c.Long += "\n\nConfiguration (a flag wins over its variable):\n\n" + settingsTable(of)
	}
}

func settingsTable(of []setting) string {
	t := Table{Indent: "  "}
	t.Row("VARIABLE", "FLAG", "DEFAULT", "MEANING")
	for _, s := range of {
		meaning := wrap(s.Meaning, 56)
		t.Row(s.Env(), "--"+s.Flag, s.defaultText(), meaning[0])
		for _, more := range meaning[1:] {
			t.Row("", "", "", more)
		}
	}
	return strings.TrimRight(t.String(), "\n")
}

// wrap breaks text at spaces into lines of at most width characters.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

func (s setting) defaultText() string {
	switch {
	case s.Required:
		return "required"
	case s.Default == "":
		return "none"
	}
	return s.Default
}

// settingsCommand prints the list as the README has it.
func (a *App) settingsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "settings",
		Short:   "Print every setting as a Markdown table",
		Example: "  tollgate settings",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var b strings.Builder
			b.WriteString("| variable | flag | default | read by | meaning |\n|---|---|---|---|---|\n")
			for _, s := range Settings {
				by := strings.Join(s.Commands, ", ")
				if slices.Equal(s.Commands, clients) || slices.Equal(s.Commands, asClients) {
					by = "client commands"
				} else if slices.Equal(s.Commands, asClients[1:]) {
					by = "client commands but token"
				}
				fmt.Fprintf(&b, "| `%s` | `--%s` | %s | %s | %s |\n", s.Env(), s.Flag, s.defaultText(), by, s.Meaning)
			}
			_, err := fmt.Fprint(a.Stdout, b.String())
			return err
		},
	}
}

// Config reads the settings of one command and collects what is wrong with
// them, so that one message names everything.
type Config struct {
	a       *App
	Command *cobra.Command
	missing []string
	wrong   []error
}

// Config reads the settings of a command.
func (a *App) Config(cmd *cobra.Command) *Config { return &Config{a: a, Command: cmd} }

// Text is a setting as it was given, or its default.
func (c *Config) Text(flag string) string {
	i := slices.IndexFunc(Settings, func(s setting) bool {
		return s.Flag == flag && slices.Contains(s.Commands, topLevel(c.Command))
	})
	s := Settings[i]
	value := s.Default
	if c.Command.Flags().Changed(flag) {
		value, _ = c.Command.Flags().GetString(flag)
	} else if v, ok := c.a.Env(s.Env()); ok && v != "" {
		value = v
	}
	if value == "" && s.Required {
		c.missing = append(c.missing, s.Env())
	}
	return value
}

// Variable is an environment variable that is no setting, because other programs know it, too.
func (c *Config) Variable(name string) string {
	value, _ := c.a.Env(name)
	return value
}

// SecretKeys are the secret key, and behind it the one before.
func (c *Config) SecretKeys() (keys [][]byte) {
	for _, flag := range []string{"secret-key", "secret-key-previous"} {
		if text := c.Text(flag); text != "" {
			key, err := ReadSecretKey(text)
			c.Check(flag, err)
			keys = append(keys, key)
		}
	}
	return keys
}

// Duration is a setting such as 10s.
func (c *Config) Duration(flag string) time.Duration {
	d, err := time.ParseDuration(c.Text(flag))
	if err != nil || d < 0 {
		c.wrong = append(c.wrong, fmt.Errorf("--%s: %q is not a duration such as 10s", flag, c.Text(flag)))
	}
	return d
}

// Number is a setting that is not negative.
func (c *Config) Number(flag string) int {
	n, err := strconv.Atoi(c.Text(flag))
	if err != nil || n < 0 {
		c.wrong = append(c.wrong, fmt.Errorf("--%s: %q is not a number", flag, c.Text(flag)))
	}
	return n
}

// Mebibytes is a number of MiB, in bytes.
func (c *Config) Mebibytes(flag string) int64 {
	const most = 1 << 30
	n, err := strconv.ParseInt(c.Text(flag), 10, 64)
	if err != nil || n < 1 || n > most {
		c.wrong = append(c.wrong, fmt.Errorf("--%s: %q is not a number of MiB from 1 to %d", flag, c.Text(flag), most))
	}
	return n << 20
}

// Check adds an error about a value that needs more than parsing.
func (c *Config) Check(flag string, err error) {
	if err != nil {
		c.wrong = append(c.wrong, fmt.Errorf("--%s: %w", flag, err))
	}
}

// Err is everything that is wrong, nil when nothing is.
func (c *Config) Err() error {
	errs := slices.Clone(c.wrong)
	if len(c.missing) > 0 {
		errs = slices.Insert(errs, 0, fmt.Errorf("%s: set %s, see 'tollgate help %s'",
			c.Command.Name(), strings.Join(c.missing, ", "), c.Command.Name()))
	}
	if len(errs) == 0 {
		return nil
	}
	return UsageError(errors.Join(errs...))
}
