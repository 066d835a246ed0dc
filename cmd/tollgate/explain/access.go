package explain

import (
	"fmt"
	"strconv"
	"strings"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

func (r *reader) account(id string) bool {
	a, ok := get[cli.AccountAnswer](r, "the account", "/v1/merchant-accounts/"+escaped(id))
	if !ok {
		return false
	}
	t := &r.e.facts
	t.Row("name", a.Name)
	t.Row("status", a.Status)
	t.Row("currencies", cli.Joined(a.Currencies, "-"))
	t.Row("sales days", fmt.Sprintf("end at %s %s, paid %d days later", a.Cutoff.CutoffTime, a.Cutoff.TimeZone, a.Cutoff.SettlementDelayDays))
	t.Row("perimeter", fmt.Sprintf("%s, version %d", a.Perimeter.ID, a.Perimeter.Version))
	t.Row("rules", cli.Joined(citations(a.RuleSet.Rules), "none")+" ("+a.RuleSet.ID+")")
	for _, s := range a.SilentRules {
		t.Row("silent", fmt.Sprintf("%s charges nothing in %s and does not say so", s.Rule, cli.Joined(s.Currencies, "-")))
	}
	r.story(id, tollgate.MerchantAccountUpdated, tollgate.CutoffUpdated, tollgate.PerimeterActivated, tollgate.RuleActivated)
	r.next("accounts:read", "perimeter "+a.Perimeter.ID, "see what it may pay")
	r.next("payments:read", "payments --account "+id, "list its payments")
	r.next("payouts:read", "payout list --account "+id, "list its payouts")
	return true
}

func citations(list []tollgate.Citation) (names []string) {
	for _, c := range list {
		names = append(names, c.String())
	}
	return names
}

func (r *reader) organization(id string) bool {
	o, ok := get[tollgate.Organization](r, "the organization", "/v1/organizations/"+escaped(id))
	if ok {
		r.e.facts.Row("name", o.Name)
		r.e.facts.Row("status", o.Status)
		r.story(id)
		r.next("accounts:read", "accounts", "list its accounts")
	}
	return ok
}

func (r *reader) legalEntity(id string) bool {
	l, ok := get[tollgate.LegalEntity](r, "the legal entity", "/v1/legal-entities/"+escaped(id))
	if ok {
		r.e.facts.Row("name", l.LegalName)
		r.e.facts.Row("country", l.Country)
		r.e.facts.Row("status", l.Status)
		r.story(id)
		r.next("accounts:read", "explain "+l.OrganizationID, "see its organization")
	}
	return ok
}

func (r *reader) grant(id string) bool {
	g, ok := get[tollgate.Grant](r, "the grant", "/v1/grants/"+escaped(id))
	if ok {
		t := &r.e.facts
		t.Row("status", g.Status)
		t.Row("client", g.ClientID)
		t.Row("accounts", cli.Joined(g.MerchantAccountIDs, "all of the organization"))
		t.Row("scopes", strings.Join(g.Scopes, " "))
		r.story(id)
		r.next("", "whoami", "see what your own token may do")
	}
	return ok
}

func (r *reader) client(id string) bool {
	c, ok := get[tollgate.ClientAnswer](r, "the client", "/v1/clients/"+escaped(id))
	if mine := r.ID == id; mine {
		r.e.facts.Row("this is", "you")
		ok = true
	}
	if c.ID != "" {
		t := &r.e.facts
		t.Row("name", c.Name)
		t.Row("status", c.Status)
		t.Row("keys", strconv.Itoa(len(c.Keys)))
		t.Row("grants", cli.Joined(c.GrantIDs, "none"))
		r.story(id)
		r.next("access:read", "grant list --client "+id, "list its grants")
	}
	r.next("", "whoami", "see your client, grant and scopes")
	return ok
}
