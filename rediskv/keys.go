package rediskv

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"tollgate"
	"tollgate/rediskv/gcra"
)

const (
	defaultPartitions = 64
	maxPartitions     = 1024
)

// Keys outside every partition.
const (
	MetaKey       = "tollgate:meta"      // hash: partitions; seal, made with the secret key of all processes, and sealed_at, since when it is this one; restoring and what else package backup says
	SandboxKey    = "tollgate:sandbox"   // hash: secrets of `tollgate dev` on a real Redis; ahead, its clock in milliseconds
	ConfigChannel = "tollgate:config"    // channel: organizations whose configuration changed
	EventsChannel = "tollgate:events"    // channel: logs, by their key, that have something new and that somebody waits for
	WorkChannel   = "tollgate:work"      // channel: queues of partitions, by their key, in which something falls due sooner; prelude.lua names it
	HeartbeatKey  = "tollgate:heartbeat" // string: the primary's clock in milliseconds, that instances can write, and for its replicas
	InstancesKey  = "tollgate:instances" // set: instances of the API, living or dead
	SecretsKey    = "tollgate:secrets"   // hash: by process which secret keys it has, JSON
	KeyringKey    = "tollgate:keys"      // string: the keys that sign access tokens, JSON; private halves are encrypted
	AuditKeysKey  = "tollgate:auditkeys" // string: the keys that sign checkpoints of audit records, and the issuer, JSON; the same
)

// ClientKey, a string, says to which organization a client belongs.
func ClientKey(client string) string { return "tollgate:client:" + client }

// InstanceKey, a string, is what an instance says of itself. It expires soon.
func InstanceKey(id string) string { return "tollgate:instance:" + id }

// DeniedKey, a hash, counts refused strangers by reason for one minute.
func DeniedKey(minute string) string { return "tollgate:denied:" + minute }

// partitionOf spreads organizations; every key of one carries the tag of its
// partition, so that a script finds them all in one slot.
func partitionOf(org string, partitions int) int { return int(crc16(org)) % partitions }

func tag(partition int) string { return fmt.Sprintf("{p%02d}", partition) }

// DueKey, a sorted set per partition: deadlines of payments by Unix
// milliseconds; a member is "<organization>/<payment>".
func DueKey(partition int) string { return tag(partition) + ":due" }

// OrganizationsKey, a set per partition, names its organizations.
func OrganizationsKey(partition int) string { return tag(partition) + ":organizations" }

// DispatchKey, a stream per partition, hands events over to the workers: o
// (organization), s (place in its log), i (id), t (type), a (merchant account),
// n (sequence). The group is dispatchGroup; what is done is removed.
func DispatchKey(partition int) string { return tag(partition) + ":dispatch" }

// DispatchGroup is the consumer group of the workers.
const DispatchGroup = "workers"

// ReadyKey, a sorted set per partition: endpoints by when to look at them next,
// Unix milliseconds; a member is "<organization>/<endpoint>".
func ReadyKey(partition int) string { return tag(partition) + ":ready" }

// BeatKey, a string, is what HeartbeatKey is to the partition's master in a cluster.
func BeatKey(partition int) string { return tag(partition) + ":heartbeat" }

// ScheduleKey, a sorted set per partition: activations that are still to come, by
// when, Unix milliseconds; a member is "<organization>/<activation>".
func ScheduleKey(partition int) string { return tag(partition) + ":activations" }

// ChangesKey, a sorted set per partition: organizations by the number of their
// last change that instances have to know of, for those that the push of it does
// not reach; the member "count" has the highest number.
func ChangesKey(partition int) string { return tag(partition) + ":changed" }

// JobsKey, a sorted set per partition: jobs of endpoints by when they last had
// their turn; a member is "<kind>/<organization>/<endpoint>/<id>".
func JobsKey(partition int) string { return tag(partition) + ":jobs" }

// ExportsKey, a stream per partition, holds the exports that nobody has ended
// yet: o (organization), e (export). The group is dispatchGroup; whoever has an
// entry in its hands is at work on it.
func ExportsKey(partition int) string { return tag(partition) + ":exports" }

// CutoffsKey, a sorted set per partition: accounts that have something to be
// paid, by when to look at them next, Unix milliseconds: when the sales day of
// the next payout date ends; a member is "<organization>/<account>".
func CutoffsKey(partition int) string { return tag(partition) + ":cutoffs" }

// PayoutsKey, a sorted set per partition: payouts that are under way, by when
// to carry them on, Unix milliseconds; a member is "<organization>/<payout>".
func PayoutsKey(partition int) string { return tag(partition) + ":payouts" }

// CheckKey, a string per partition, is how far the walk has come that checks it: see
// package checks. CheckingKey, a string that expires, is who walks, or rests.
func CheckKey(partition int) string { return tag(partition) + ":check" }

// CheckingKey is the other one.
func CheckingKey(partition int) string { return tag(partition) + ":checking" }

// ArchiveKey, a hash per partition, is the manifest of its archive: see package archive.
func ArchiveKey(partition int) string { return tag(partition) + ":archive" }

// Space names the keys of one organization.
type Space struct {
	Org       string
	Partition int
	prefix    string // "{p07}:org_…"
	Due       string
	Dispatch  string
	Ready     string
	Jobs      string
	Cutoffs   string
	Payouts   string
}

// Partition is that of an organization.
func (s *DB) Partition(org string) int { return partitionOf(org, len(s.spaces)) }

// Space is the key space of an organization: all its keys are in one slot.
func (s *DB) Space(org string) Space {
	k := s.spaces[s.Partition(org)]
	k.Org, k.prefix = org, k.prefix+":"+org
	return k
}

// spacesOf are the key spaces of partitions, of no organization yet: a request asks
// for several, and their names would be put together each time.
func spacesOf(partitions int) []Space {
	spaces := make([]Space, partitions)
	for p := range spaces {
		spaces[p] = Space{
			Partition: p, prefix: tag(p), Due: DueKey(p), Dispatch: DispatchKey(p), Ready: ReadyKey(p), Jobs: JobsKey(p),
			Cutoffs: CutoffsKey(p), Payouts: PayoutsKey(p),
		}
	}
	return spaces
}

// Counter, a string, is what has been consumed of a perimeter's limit in one window.
func (k Space) Counter(name string) string { return k.prefix + ":use:" + name }

// Webhooks is a hash of the organization's endpoints: by id what they want, as
// JSON, and v, which counts the changes.
func (k Space) Webhooks() string { return k.prefix + ":webhooks" }

// What belongs to one endpoint we_…, itself a hash (v, json, url, keys, and its
// health: st, ok, fail, cap, pause):
//
//	:queue   sorted set of deliveries by when to send them; a lease moves one on
//	:leases  sorted set of deliveries being sent, by when their lease ends
//	:targets hash of these deliveries: the URL that each is being sent to
//	:open    sorted set of deliveries not yet done, by their event's time; pings
//	         are behind all events
//	:dlv     sorted set of all deliveries by their event's sequence
func (k Space) Queue(endpoint string) string { return k.Object(endpoint) + ":queue" }

func (k Space) Leases(endpoint string) string { return k.Object(endpoint) + ":leases" }

func (k Space) Targets(endpoint string) string { return k.Object(endpoint) + ":targets" }

func (k Space) Open(endpoint string) string { return k.Object(endpoint) + ":open" }

func (k Space) Deliveries(endpoint string) string { return k.Object(endpoint) + ":dlv" }

// Attempts is a hash of a delivery's attempts that stand beside it, by number.
func (k Space) Attempts(delivery string) string { return k.Object(delivery) + ":att" }

// Unfinished is the set of the organization's exports that nobody has ended yet.
func (k Space) Unfinished() string { return k.prefix + ":exports" }

// AllExports is the sorted set of the organization's exports by their ids, which
// grow with time. It has none that were made before it was kept.
func (k Space) AllExports() string { return k.prefix + ":exports:all" }

// ExportSizes, a hash, is how many bytes the organization's export files take
// up: by export, and "all". ExportFiles is the sorted set of those that have
// ended, by when their file is gone by itself, Unix milliseconds.
func (k Space) ExportSizes() string { return k.prefix + ":exports:sizes" }

func (k Space) ExportFiles() string { return k.prefix + ":exports:files" }

// What belongs to an export exp_…, itself a hash (see exports.go):
//
//	:ends  list of where its chunks end in the file, in bytes
//	:c:N   string: chunk N, from 0, compressed by itself
func (k Space) Ends(export string) string { return k.Object(export) + ":ends" }

func (k Space) Chunk(export string, n int) string {
	return k.Object(export) + ":c:" + strconv.Itoa(n)
}

// Organization is the hash of the organization itself: v, json, accounts.
func (k Space) Organization() string { return k.prefix }

// Object is what belongs to an identifier below the organization:
//
//	le_ ma_ grt_ cli_   hash: v (revision), json; ma_ also limits (its perimeter),
//	                    cutoffs (the versions of its cutoff, JSON), closed (its
//	                    last closed sales day, "2006-01-02"), given (the rule set
//	                    that provisioning gave it last, id@version)
//	po_                 hash, see payout_hash.go
//	pay_ txn_           hash, see payments.go and transactions.go
//	tkt_ cap_           string: the JSON, or packed
func (k Space) Object(id string) string { return k.prefix + ":" + id }

// Version is the string that holds an immutable version of a perimeter or a
// rule set.
func (k Space) Version(id string, version int64) string {
	return fmt.Sprintf("%s:%s:%d", k.prefix, id, version)
}

// VersionNamed is version by its name, id@version, or object where there is no
// version in it. configured is object, or organization by its own id.
func (k Space) VersionNamed(name string) string {
	return k.Object(strings.Replace(name, "@", ":", 1))
}

func (k Space) Configured(id string) string {
	if id == k.Org {
		return k.Organization()
	}
	return k.Object(id)
}

// Grants is a hash of all its grants: by id their client, and v, which counts the
// changes. It is made with the first change of a grant, or that ends tokens.
func (k Space) Grants() string { return k.prefix + ":grants" }

// Clients is the set of the ids of all its clients, and of AllClients once those of
// earlier releases, which kept no such set, have been searched.
func (k Space) Clients() string { return k.prefix + ":clients" }

// AllClients is in Clients when no client is missing there.
const AllClients = "all"

// Ending is a set of whose tokens are still to be ended: "<organization or
// client>/<operation>". It is there only while a run of provision is at it, or
// after one that died.
func (k Space) Ending() string { return k.prefix + ":ending" }

// Perimeters is the set of the versions of the organization's perimeters:
// id@version.
func (k Space) Perimeters() string { return k.prefix + ":perimeters" }

// Quotas is a hash: v; rules, how many names of rules there are; perimeters, how
// many versions of perimeters.
func (k Space) Quotas() string { return k.prefix + ":quotas" }

// Rules is the sorted set of the organization's published rules, in the order of
// their members: see ruleMember.
func (k Space) Rules() string { return k.prefix + ":rules" }

// Rule is the hash of a published rule: v, json, sha, golden.
func (k Space) Rule(c tollgate.Citation) string { return k.prefix + ":" + c.String() }

// RuleName is the hash of what all versions of a rule have in common: v, last
// (the highest version).
func (k Space) RuleName(name string) string { return k.prefix + ":rule:" + name }

// Shadows is the sorted set of the organization's shadows, in the order in
// which they were made, shadowing a hash of the active ones: v, list (their JSON). What belongs to
// one shadow shd_…, itself a hash (v, json): totals, a hash of counts, and
// divergences, a stream: b (the JSON).
func (k Space) Shadows() string { return k.prefix + ":shadows" }

func (k Space) Shadowing() string { return k.prefix + ":shadowing" }

func (k Space) Totals(shadow string) string { return k.Object(shadow) + ":totals" }

func (k Space) Divergences(shadow string) string { return k.Object(shadow) + ":divergences" }

// Activations is the sorted set of a rule set's activations, in the order in
// which they were made. The rule set itself is a hash: v, last (the highest
// version), pending
// (its scheduled activations). An activation is a hash: v, json.
func (k Space) Activations(ruleSet string) string { return k.Object(ruleSet) + ":activations" }

// Module is the string with a published module's bytes.
func (k Space) Module(sha256 string) string { return k.prefix + ":module:" + sha256 }

// Sequences is a hash of counters (event, audit), and the channel of who waits for
// events (tell).
func (k Space) Sequences() string { return k.prefix + ":seq" }

// Events is the stream of the organization's events: i (id), t (type),
// a (merchant account), b (the frozen JSON).
func (k Space) Events() string { return k.prefix + ":events" }

// Audit is the stream of its audit record: b (the JSON).
func (k Space) Audit() string { return k.prefix + ":audit" }

// AuditTree, a string, is what is sealed of it, JSON; AuditCheckpoints the stream of its
// checkpoints, b (the JSON); AuditTile a string with hashes of its tree: package audittree.
func (k Space) AuditTree() string { return k.prefix + ":tree" }

func (k Space) AuditCheckpoints() string { return k.prefix + ":tree:checkpoints" }

func (k Space) AuditTile(history string, level int, index int64) string {
	return fmt.Sprintf("%s:tree:%s:%d:%d", k.prefix, history, level, index)
}

// Moves is the list of a payment's transactions after its authorization.
func (k Space) Moves(payment string) string { return k.prefix + ":" + payment + ":txns" }

// Parts is a hash of the transactions of a payment that has numbered them, each by its
// number (record.Share), and of its captures and refunds: by their number and Document the
// JSON. All that belongs to the payment is numbered, so any identifier of it leads here; ""
// of any other.
func (k Space) Parts(id string) string {
	if of, _, ok := tollgate.NumberIn(id); ok {
		return k.prefix + ":parts:" + of
	}
	return ""
}

// Document is behind the number of a capture or a refund in Parts.
const Document = ".doc"

// Indexes of transactions, sorted sets by position (event sequence × 16 + n): all, which
// earlier builds read alone (ledger.Complete); those of an account, those in a status.
func (k Space) Transactions() string { return k.prefix + ":txns" }

func (k Space) TransactionsOf(account string) string { return k.prefix + ":txns:" + account }

func (k Space) TransactionsIn(status string) string { return k.prefix + ":txns:" + status }

// Payable is a hash of the groups that an account is to be paid:
// "<due>/<currency>/<group>/" and c (captured), f (fees), n (captures).
func (k Space) Payable(account string) string { return k.Object(account) + ":payable" }

// Refunds is a hash of what was refunded in these groups, by the group.
func (k Space) Refunds(account string) string { return k.Object(account) + ":refunds" }

// Group is the sorted set of the captures, refunds and fees of an account and
// currency that had one payout date when they were made, by position.
func (k Space) Group(account string, c tollgate.Currency, d tollgate.Date) string {
	return k.Object(account) + ":pay:" + string(c) + ":" + d.String()
}

// Damaged is a hash of the objects that could not be read, or that a check found
// wrong, "<kind>/<id>", and since when that is known, Unix milliseconds.
func (k Space) Damaged() string { return k.prefix + ":damaged" }

// Own is the sorted set of a payout's own transaction, by position.
func (k Space) Own(payout string) string { return k.Object(payout) + ":txn" }

// Paying is the string of the operation by which a worker asks for a payout now. It
// expires when its lease is over, by Redis' time.
func (k Space) Paying(payout string) string { return k.Object(payout) + ":paying" }

// idempotency is the string that remembers a request: operation (its id, client
// and reach, see Caller.remembered), fingerprint, status, location and body (or
// what was shown, see record.Request), by line. It expires.
func (k Space) idempotency(i Idempotency) string {
	return k.prefix + ":idem:" + digest(i.Scope, i.Key)
}

// IdempotencyPattern matches the keys of all records of requests.
const IdempotencyPattern = "{*}:*:idem:*"

// Mark is the string that says, for a while, that an operation has run, so that
// its script finds its own work when it is sent again (see prelude.lua).
func (k Space) Mark(operation string) string { return k.prefix + ":op:" + operation }

// Assertion is the string that burns the jti of an assertion, or of a proof by its key's
// thumbprint: the operation that did it. It expires with them.
func (k Space) Assertion(client, jti string) string {
	return k.prefix + ":jti:" + digest(client, jti)
}

// Rate is the string that is the bucket of a client or a grant for requests of one kind:
// the theoretical arrival time of the next one, in microseconds (package gcra). It
// expires when the bucket is full.
func (k Space) Rate(of string, kind gcra.Kind) string {
	return k.prefix + ":rate:" + of + ":" + string(kind)
}

// digest shortens what a client chose to a fixed length that cannot collide
// by concatenation.
func digest(parts ...string) string {
	var text []byte
	for _, p := range parts {
		text = append(append(strconv.AppendInt(text, int64(len(p)), 10), ':'), p...)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:20])
}

// crc16 is Redis Cluster's own (XMODEM), so that the spread is as even as its
// slots'.
func crc16(s string) (crc uint16) {
	for i := range len(s) {
		x := crc>>8 ^ uint16(s[i]) // all eight bits at once
		x ^= x >> 4
		crc = crc<<8 ^ x<<12 ^ x<<5 ^ x
	}
	return crc
}

// Unprefixed shortens a transaction's id for the indexes.
func Unprefixed(id string) string { return id[len(tollgate.PrefixTransaction):] }
