// Package ledger keeps the transactions of payments and payouts, and their indexes.
package ledger

import (
	"embed"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"tollgate/rediskv"
	"tollgate/rediskv/postings"
)

//go:embed lua/*.lua
var lua embed.FS

// Store is that part of the state. It is safe for concurrent use.
type Store struct {
	db      *rediskv.DB
	payouts *lru.Cache[string, *[]string] // the indexes of a payout, by its key

	dropped sync.Map // organizations whose index of all transactions was removed

	postings *postings.Store
	archive  Archive                         // nil: there is none
	spans    *lru.Cache[string, *knownSpans] // by ArchivedKey
}

// knownPayouts is how many payouts' indexes are remembered.
const knownPayouts = 10_000

// knownOrganizations is of how many organizations it is remembered what the archive has.
const knownOrganizations = 10_000

// New returns it on a database.
func New(db *rediskv.DB) *Store {
	payouts, err := lru.New[string, *[]string](knownPayouts)
	if err != nil {
		panic(err) // only for a size below 1
	}
	spans, err := lru.New[string, *knownSpans](knownOrganizations)
	if err != nil {
		panic(err) // likewise
	}
	return &Store{db: db, payouts: payouts, postings: postings.New(db), spans: spans}
}
