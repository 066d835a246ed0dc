package rules

import (
	"context"
	"errors"
	"net/url"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

// Versions are all versions that a payment can cite: those that this binary brings
// along and those that the organization has published, with the accounts that each
// prices. What the client's scopes do not show is left out.
func Versions(ctx context.Context, api *cli.Client) ([]ListedRule, error) {
	rules, err := builtinList()
	if err != nil {
		return nil, err
	}
	query := url.Values{"limit": {"100"}}
	for more := true; more; {
		_, page, err := cli.Read[tollgate.List[tollgate.Listed[tollgate.Rule]]](api.Get(ctx, "/v1/rules", query))
		if hidden(err) {
			break
		}
		if err != nil {
			return nil, err
		}
		for _, listed := range page.Data {
			if r := listed.Value; listed.Damage == nil {
				rules = append(rules, ListedRule{Rule: r.Rule.String(), Label: r.Label, Bytes: r.Bytes, SHA256: r.SHA256, SignerID: r.SignerID, PublishedAt: r.CreatedAt})
			}
		}
		if more = page.NextCursor != nil; more {
			query.Set("cursor", *page.NextCursor)
		}
	}
	marked, err := inForce(ctx, api, rules)
	if hidden(err) {
		return rules, nil
	}
	return marked, err
}

// hidden reports whether the client may not see what it has asked for.
func hidden(err error) bool {
	refused, ok := errors.AsType[*cli.Refusal](err)
	return ok && refused.Code == tollgate.CodeScopeMissing
}
