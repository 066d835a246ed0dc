package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/client"
)

// exportTickets has the service write tickets to a file, fetches it and returns
// what is in it. The file is a temporary one: it is gone once it is closed.
func exportTickets(ctx context.Context, c *cli.Client, of Range) (io.ReadCloser, error) {
	filters := map[string]string{}
	if of.After != 0 {
		filters["created_after"] = of.After.String()
	}
	if of.Before != 0 {
		filters["created_before"] = of.Before.String()
	}
	if of.Account != "" {
		filters["merchant_account_id"] = of.Account
	}
	body, err := c.Post(ctx, "/v1/exports/preview", map[string]any{
		"dataset": tollgate.DatasetTickets, "format": tollgate.FormatNDJSON, "filters": filters,
	}, c.App.IdempotencyKey(""))
	if err != nil {
		return nil, err
	}
	var e tollgate.Export
	if err := cli.Parse(body, &e); err != nil {
		return nil, err
	}
	if _, err := client.AwaitExport(ctx, c, body, &e, true); err != nil {
		return nil, err
	}
	if err := client.Complete(&e); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tollgate-tickets-")
	if err != nil {
		return nil, fmt.Errorf("tickets: %w", err)
	}
	path := filepath.Join(dir, "tickets.ndjson")
	if err := client.FetchExport(ctx, c, &e, path); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tickets: %w", err), os.RemoveAll(dir))
	}
	return &temporary{file, dir}, nil
}

// temporary is a file that goes with its directory when it is closed.
type temporary struct {
	*os.File
	dir string
}

// Close closes and removes the file.
func (t *temporary) Close() error { return errors.Join(t.File.Close(), os.RemoveAll(t.dir)) }
