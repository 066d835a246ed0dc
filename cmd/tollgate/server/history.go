package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/handlers/service"
	"tollgate/rediskv"
	"tollgate/rediskv/history"
	"tollgate/rediskv/store"
)

func historyCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "history",
		Short: "See whether Redis has lost acknowledged data, and accept that it has",
		Long: `Each partition of Redis has a history with a name. When Redis comes back without
data that it had acknowledged, the process that notices writes that down. Then
nothing is written in that partition (or a new history begins at once, with
TOLLGATE_ON_HISTORY_LOSS=continue), and no payout is made, until you accept it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(historyShow(a), historyAccept(a))
	return c
}

// partitionHistory is a partition's history as it is shown.
type partitionHistory struct {
	Partition     int              `json:"partition"`
	HistoryID     string           `json:"history_id"`
	BeganAt       tollgate.Instant `json:"began_at"`
	Writes        bool             `json:"writes"`
	Payouts       bool             `json:"payouts"`
	Loss          *history.Loss    `json:"loss"`
	Past          []history.Past   `json:"past"`
	Organizations []string         `json:"organizations"`
}

func shownHistory(partition int, r history.Record, orgs []string) partitionHistory {
	return partitionHistory{partition, r.ID, r.Began, r.Open, r.Loss == nil, r.Loss, append([]history.Past{}, r.Past...), append([]string{}, orgs...)}
}

func historyShow(a *cli.App) *cobra.Command {
	var all, asJSON bool
	c := &cobra.Command{
		Use:   "show",
		Short: "Show the partitions that have lost data",
		Long: `Show every partition where a loss was found and is not accepted, with its
organizations. Exit code 1 says that there is one.`,
		Example: `  tollgate history show
  tollgate history show --all --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return WithStore(a, a.Config(cmd), func(ctx context.Context, s *store.Store) error {
				list, err := histories(ctx, s, all)
				if err != nil {
					return err
				}
				if asJSON {
					err = a.PrintJSON(list)
				} else {
					err = printHistories(a, list)
				}
				if err == nil && slices.ContainsFunc(list, func(h partitionHistory) bool { return h.Loss != nil }) {
					err = cli.RefusedError(errors.New("data was lost; 'tollgate history accept' goes on"))
				}
				return err
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "show the partitions that have lost nothing, too")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func histories(ctx context.Context, s *store.Store, all bool) (list []partitionHistory, err error) {
	list = []partitionHistory{}
	for p := range s.Partitions() {
		r, err := s.Histories.Reread(ctx, p)
		if err != nil {
			return nil, err
		}
		orgs, err := s.OrganizationsIn(ctx, p)
		if err != nil {
			return nil, err
		}
		if r.Loss != nil || all && (len(orgs) > 0 || len(r.Past) > 0) {
			list = append(list, shownHistory(p, r, orgs))
		}
	}
	return list, nil
}

func printHistories(a *cli.App, list []partitionHistory) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.Stdout, "No loss of data waits to be accepted.")
		return err
	}
	for _, h := range list {
		if err := printHistory(a.Stdout, h); err != nil {
			return err
		}
	}
	return nil
}

func printHistory(w io.Writer, h partitionHistory) error {
	yes := map[bool]string{true: "yes", false: "no"}
	text := fmt.Sprintf("partition      %d\nhistory        %s since %s\nwrites         %s\npayouts        %s\n", h.Partition, h.HistoryID, h.BeganAt, yes[h.Writes], yes[h.Payouts])
	if l := h.Loss; l != nil {
		since := "from its beginning on, or that is not known"
		if l.Since != 0 {
			since = "since " + l.Since.String()
		}
		text += fmt.Sprintf("lost           %s, found at %s (%s)\n", since, l.FoundAt, l.Reason)
		if l.Organization != "" {
			text += fmt.Sprintf("found with     %s: %d was acknowledged, %d is there\n", l.Organization, l.Acknowledged, l.Found)
		}
	}
	for _, org := range h.Organizations {
		text += "organization   " + org + "\n"
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

func historyAccept(a *cli.App) *cobra.Command {
	var partition int
	var anew, asJSON bool
	var since string
	c := &cobra.Command{
		Use:   "accept",
		Short: "Go on after a loss of data",
		Long: `Go on after a loss: a new history begins where none has yet, payments are taken
and payouts are made again. Access tokens and cursors of the history before are
answered with 410 history_changed, which says since when data may be missing.
Before you accept, compare with the payer which payouts it has been asked for.

After you put a volume or a file back by hand, no process may have noticed: use
--new on every partition, or on one with --partition.`,
		Example: `  tollgate history accept
  tollgate history accept --new --since 2026-11-24T03:00:00.000Z`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := instantFlag("--since", since)
			if err != nil {
				return err
			}
			return WithStore(a, a.Config(cmd), func(ctx context.Context, s *store.Store) error {
				return acceptHistories(ctx, a, s, partition, anew, from, asJSON)
			})
		},
	}
	f := c.Flags()
	f.IntVar(&partition, "partition", -1, "the partition; all where a loss was found")
	f.BoolVar(&anew, "new", false, "begin a new history although no process has found a loss")
	f.StringVar(&since, "since", "", "with --new: from when on data may be missing, RFC 3339")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func acceptHistories(ctx context.Context, a *cli.App, s *store.Store, partition int, anew bool, since tollgate.Instant, asJSON bool) error {
	if partition >= s.Partitions() {
		return cli.UsageError(fmt.Errorf("--partition: there are %d, from 0 on", s.Partitions()))
	}
	list := []partitionHistory{}
	for p := range s.Partitions() {
		if partition >= 0 && p != partition {
			continue
		}
		orgs, err := s.OrganizationsIn(ctx, p)
		if err != nil {
			return err
		}
		r, err := s.Histories.Accept(ctx, p, anew && (partition >= 0 || len(orgs) > 0), since)
		if errors.Is(err, history.ErrNothingToAccept) {
			continue
		}
		if err != nil {
			return err
		}
		list = append(list, shownHistory(p, r, orgs))
	}
	if asJSON {
		return a.PrintJSON(list)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.Stdout, "No loss of data waits to be accepted.")
		return err
	}
	return printHistories(a, list)
}

// WithStore opens the store that the settings name.
func WithStore(a *cli.App, c *cli.Config, do func(context.Context, *store.Store) error) error {
	ctx := c.Command.Context()
	o := rediskv.Options{URL: c.Text("redis-url"), Clock: a.Clock, Entropy: a.Entropy, Timeout: a.StoreTimeout}
	if err := c.Err(); err != nil {
		return err
	}
	store, err := service.Connect(ctx, o)
	if err != nil {
		return cli.StartError(err)
	}
	defer store.Close()
	return cli.StartError(do(ctx, store))
}
