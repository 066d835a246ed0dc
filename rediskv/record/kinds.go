package record

import (
	"slices"
	"strings"
)

// Kind is a kind of record that is a hash: what its checksum covers, and what it does
// not. TestEveryBitIsCovered compares it with what is written.
type Kind struct {
	Name string
	// Covered are the fields that Go writes, in the order in which it does.
	Covered []string
	// Numbered are covered as well, from 0 on: name0, name1, and so on.
	Numbered string
	// Scripts are the fields that scripts change, or that change without a checksum.
	Scripts []string
	// Folded are those that no script reads or writes by itself. They may stand packed in one
	// field (fold.go).
	Folded []string
	// Repeats are those that records of one hash have alike, as a rule: of the first of them
	// they are known to who reads a later one (shared.go). They are in the order of Covered.
	Repeats []string
	// Within: fields whose names are numbers are records of their own.
	Within bool
	// Witness is the covered number that every change raises. It stands behind the
	// checksum: an earlier release changes fields and leaves the checksum as it is,
	// and by the number it is known that somebody has.
	Witness string
}

// table has the kinds by the prefix of an identifier, or by what the key ends in.
var table = []struct {
	key string
	Kind
}{
	{"pay_", Kind{
		Name: "payment", Witness: "v", Numbered: "use",
		Covered: []string{
			"st", "capb", "capd", "reld", "rfd", "fee", "why", "aut", "cpt", "can", "exp", "upd", "v", "capn", "rfn", "num",
			"crt", "ma", "amt", "cur", "payee", "cm", "bef", "ref", "desc", "meta", "per", "perv", "perd", "perr", "due", "era",
		},
		Folded: []string{
			"crt", Field, "ma", "amt", "cur", "payee", "cm", "bef", "ref", "desc", "meta", "per", "perv", "perd", "perr",
			"st", "capb", "capd", "reld", "rfd", "fee", "aut", "cpt", "can", "exp", "upd", "capn", "rfn", "num", "why",
		},
	}},
	{"txn_", Kind{
		Name:    "transaction",
		Covered: []string{"crt", "ty", "pay", "cap", "rfd", "tkt", "ma", "amt", "cur", "payee", "ref", "bd", "av"},
		Scripts: []string{"st", "upd", "po", "pos"},
		Repeats: []string{"crt", "pay", "ma", "amt", "cur", "payee", "ref"},
	}},
	{payoutTransaction, Kind{
		Name: "transaction", Witness: "upd",
		Covered: []string{"crt", "ty", "st", "pay", "cap", "rfd", "po", "tkt", "ma", "amt", "cur", "payee", "ref", "bd", "av", "upd"},
		Scripts: []string{"pos"},
	}},
	{"po_", Kind{
		Name: "payout", Witness: "upd",
		Covered: []string{"ma", "cur", "date", "st", "grp", "crt", "upd", "why", "held", "ref", "asked", "his"},
		Scripts: []string{"step", "at", "lease", "op", "tally", "tat", "sum"},
	}},
	{"dlv_", Kind{
		Name:    "delivery",
		Covered: []string{"we", "evt", "et", "sid", "body", "crt"},
		Folded:  []string{Field, "evt", "sid", "crt", "et", "we"},
		Within:  true,
		Scripts: []string{"st", "trig", "n", "run", "lat", "nat", "done", "code", "why", "cat", "rpl", "rc", "rc=", "to"},
	}},
	{"rpl_", Kind{Name: "replay", Covered: []string{"json"}}},
	{"rcv_", Kind{Name: "recovery", Covered: []string{"json", "end"}, Scripts: []string{"at", "state", "looked", "queued", "queued=", "cat", "marks"}}},
	{"we_", Kind{
		Name: "webhook_endpoint", Witness: "v",
		Covered: []string{"st", "v", "url", "json", "keys"},
		Scripts: []string{"fail", "ok", "cap", "pause", "health"},
	}},
	{"exp_", Kind{
		Name: "export", Witness: "fin",
		Covered: []string{"cut", "json", "flt", "low", "sum", "code", "why", "fin"},
		// exp: an earlier release ends the file's time sooner and leaves the checksum as
		// it is. Who reads it compares it with fin.
		Scripts: []string{"st", "exp", "total", "n", "tries", "entry", "own", "start", "at", "done", "left", "bytes", "sha", "prev", "psum", "marks"},
	}},
	{"org_", Kind{Name: "organization", Witness: "v", Covered: []string{"v", "json", "accounts"}}},
	{"ma_", Kind{Name: "merchant_account", Witness: "v", Covered: []string{"v", "json", "limits", "given", "cutoffs"}, Scripts: []string{"closed"}}},
	{"le_", Kind{Name: "legal_entity", Witness: "v", Covered: []string{"v", "json"}}},
	{"cli_", Kind{Name: "client", Witness: "v", Covered: []string{"v", "json"}}},
	{"grt_", Kind{Name: "grant", Covered: []string{"json"}, Scripts: []string{"v", "v=", "revoked", "revoked="}}},
	{"sig_", Kind{Name: "rule_signer", Witness: "v", Covered: []string{"v", "json"}}},
	{"rs_", Kind{Name: "rule_set", Witness: "v", Covered: []string{"v", "last", "pending"}}},
	{"act_", Kind{Name: "activation", Witness: "v", Covered: []string{"v", "json"}}},
	{"shd_", Kind{Name: "shadow", Witness: "v", Covered: []string{"v", "json"}}},
	{rule, Kind{Name: "rule", Witness: "v", Covered: []string{"v", "json", "sha", Golden}}},
	{name, Kind{Name: "rule_name", Witness: "v", Covered: []string{"v", "last"}}},
	{history, Kind{Name: "history", Covered: []string{"id", "first", "began", "past", "lost"}, Scripts: []string{"open", "starts"}}},
	{quotas, Kind{Name: "quotas", Witness: "v", Covered: []string{"v", "rules", "perimeters"}}},
	{shadowing, Kind{Name: "shadows", Witness: "v", Covered: []string{"v", "list"}}},
}

var kinds = func() map[string]*Kind {
	by := make(map[string]*Kind, len(table))
	for i := range table {
		by[table[i].key] = &table[i].Kind
	}
	return by
}()

// Kinds that no prefix names.
const (
	payoutTransaction = "payout"
	rule              = "rule:@"
	name              = "rule:"
	shadowing         = "shadowing"
	quotas            = "quotas"
	history           = "history" // of a partition
)

// KindOf is the kind of the hash at a key, nil for what is no record:
// "{p07}:<organization>[:<name>]".
func KindOf(key string) *Kind {
	tag, key, _ := strings.Cut(key, ":")
	if !strings.HasPrefix(tag, "{") { // of no partition
		return nil
	}
	organization, at, below := strings.Cut(key, ":")
	if !below {
		if at = organization; at == history {
			return kinds[at]
		}
	}
	if cited, ok := strings.CutPrefix(at, name); ok && below {
		if strings.Contains(cited, "@") {
			return kinds[rule]
		}
		return kinds[name]
	}
	if at == shadowing || at == quotas {
		return kinds[at]
	}
	prefix := strings.IndexByte(at, '_') + 1
	if strings.Contains(at, ":") || prefix == 0 || below == (at[:prefix] == "org_") {
		return nil
	}
	return kinds[at[:prefix]]
}

// Names are names of fields and, where the document of a record is among them, all
// that its checksum covers and the envelope; and what they may be folded in.
func (k *Kind) Names(names []string) []string {
	for _, name := range names {
		if k != nil && k.Folds(name) {
			names = append(names[:len(names):len(names)], Pieces(FoldField)...)
			break
		}
	}
	if k == nil || k.Numbered != "" || len(names) == 0 || !slices.Contains(names, "json") {
		return names
	}
	all := slices.Clone(names)
	for _, list := range [][]string{k.Covered, {Field}} {
		for _, one := range list {
			if !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all
}
