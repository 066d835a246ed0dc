// Package proof is what an auditor does with an audit record from outside, with a token of
// the scope audit:read and nothing else: verify it, prove an entry, keep a checkpoint.
package proof

import (
	"context"
	"net/url"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/handlers/tlog/auditor"
)

const (
	checkpoints = "/v1/audit/checkpoints"
	leaves      = "/v1/audit/leaves"
)

// each hands over the rows of a listing, page by page, as they came.
func each(ctx context.Context, api *cli.Client, path, history string, do func(jsontext.Value) error) error {
	query := url.Values{"limit": {"100"}}
	if history != "" {
		query.Set("history_id", history)
	}
	for {
		_, page, err := cli.Read[tollgate.List[jsontext.Value]](api.Get(ctx, path, query))
		if err != nil {
			return err
		}
		for _, row := range page.Data {
			if err := do(row); err != nil {
				return err
			}
		}
		if page.NextCursor == nil {
			return nil
		}
		query.Set("cursor", *page.NextCursor)
	}
}

// latest is the last checkpoint of a history's tree, of "" the current one, as it came.
func latest(ctx context.Context, api *cli.Client, history string) (row jsontext.Value, err error) {
	query := url.Values{"limit": {"1"}}
	if history != "" {
		query.Set("history_id", history)
	}
	_, page, err := cli.Read[tollgate.List[jsontext.Value]](api.Get(ctx, checkpoints, query))
	if err != nil || len(page.Data) == 0 {
		return nil, err
	}
	return page.Data[0], nil
}

// leaf is a row of the tree.
type leaf struct {
	Index int64   `json:"index"`
	Hash  *string `json:"hash"`
	Entry *string `json:"entry"`
}

// source reads the record for an auditor.
func source(api *cli.Client) auditor.Source {
	return auditor.Source{
		Latest: func(ctx context.Context, history string) (*auditor.Signed, error) {
			row, err := latest(ctx, api, history)
			if err != nil || row == nil {
				return nil, err
			}
			_, one, err := cli.Read[auditor.Signed](row, nil)
			return &one, err
		},
		Checkpoints: func(ctx context.Context) (all []auditor.Signed, err error) {
			err = each(ctx, api, checkpoints, "", func(row jsontext.Value) error {
				_, one, err := cli.Read[auditor.Signed](row, nil)
				all = append(all, one)
				return err
			})
			return all, err
		},
		Rows: func(ctx context.Context, history string, do func(int64, *string, *string) error) error {
			return each(ctx, api, leaves, history, func(row jsontext.Value) error {
				_, one, err := cli.Read[leaf](row, nil)
				if err != nil {
					return err
				}
				return do(one.Index, one.Hash, one.Entry)
			})
		},
	}
}
