package profile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollgate/cmd/tollgate/cli"
)

// Command is debug with all that stands under it.
func Command(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "debug",
		Short: "See what a running serve or work does",
		Long: `See what a running serve or work does. The process must have been started with
TOLLGATE_PPROF_ADDR, an address of this machine alone, and the command needs the
same one.`,
	}
	c.AddCommand(profileCommand(a))
	return c
}

func profileCommand(a *cli.App) *cobra.Command {
	var seconds int
	var output string
	var asJSON bool
	c := &cobra.Command{
		Use:   "profile",
		Short: "Fetch profiles of a running process into one file",
		Long: `Fetch profiles of a running serve or work into one zip:

  cpu.pprof        where it computed during that time
  trace.out        what each goroutine did, at most the first 5 seconds
  mutex.pprof      where goroutines waited for each other during that time
  heap.pprof       what is in memory at its end
  allocs.pprof     what was allocated since the process started
  goroutines.txt   where each goroutine is at its end
  about.txt        version, processors, memory

A profile costs the process a few percent of its time. Read the files with 'go tool
pprof' and 'go tool trace'.`,
		Example: `  tollgate debug profile --pprof-addr 127.0.0.1:6060
  tollgate debug profile --seconds 30 -o slow.zip`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config := a.Config(cmd)
			addr := config.Text(Setting)
			if addr == "" {
				return cli.UsageError(errors.New("say which process: TOLLGATE_PPROF_ADDR or --pprof-addr, the address that it was started with"))
			}
			config.Check(Setting, CheckAddr(addr))
			if seconds < 1 || seconds > maxSeconds {
				config.Check("seconds", fmt.Errorf("%d is not between 1 and %d", seconds, maxSeconds))
			}
			if err := config.Err(); err != nil {
				return err
			}
			size, err := fetch(cmd.Context(), a, addr, seconds, output)
			if err != nil {
				return err
			}
			return say(a, output, size, asJSON)
		},
	}
	c.Flags().IntVar(&seconds, "seconds", defaultSeconds, "how long to look, 1 to 300")
	c.Flags().StringVarP(&output, "output", "o", "tollgate-profile.zip", "the file to write")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func say(a *cli.App, file string, size int, asJSON bool) error {
	if asJSON {
		return a.PrintJSON(struct {
			File  string `json:"file"`
			Bytes int    `json:"bytes"`
		}{file, size})
	}
	_, err := fmt.Fprintf(a.Stdout, "%s has %d bytes. To look into it:\n\n  unzip -d profile %s\n  go tool pprof -http 127.0.0.1:0 profile/cpu.pprof\n  go tool trace profile/trace.out\n", file, size, cli.ShellQuote(file))
	return err
}

// fetch waits for the profiles, writes them all to a file and says how large it is; or it
// writes none.
func fetch(ctx context.Context, a *cli.App, addr string, seconds int, output string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://%s%s?seconds=%d", addr, path, seconds), http.NoBody)
	if err != nil {
		return 0, cli.UsageError(err)
	}
	fmt.Fprintf(a.Stderr, "Looking for %d s …\n", seconds)
	client := http.Client{Transport: &http.Transport{}} // no proxy: it is this machine
	answer, err := client.Do(r)
	if err != nil {
		return 0, cli.UnavailableError(fmt.Errorf("no process answers at %s (is it running, and was it started with TOLLGATE_PPROF_ADDR=%s?): %w", addr, addr, err))
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return 0, cli.UnavailableError(fmt.Errorf("the process has broken off: %w", err))
	case answer.StatusCode == http.StatusConflict:
		return 0, cli.RefusedError(errors.New(strings.TrimSpace(string(content))))
	case answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "application/zip":
		return 0, cli.RefusedError(fmt.Errorf("what answers at %s makes no profiles: %s", addr, answer.Status))
	}
	if err := os.WriteFile(output, content, 0o600); err != nil {
		return 0, cli.UsageError(err)
	}
	return len(content), nil
}
