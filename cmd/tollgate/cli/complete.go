package cli

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollgate"
)

// completionTimeout bounds what a person waits for when asking the shell for words.
const completionTimeout = 2 * time.Second

// CompleteIDs completes the first argument of a command with the newest ids of a list of
// the API. Without a service there are none, and nothing is said.
func (a *App) CompleteIDs(path string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		api, err := a.NewClient(a.Config(cmd))
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), completionTimeout)
		defer cancel()
		list, query, _ := strings.Cut(path, "?")
		values, _ := url.ParseQuery(query)
		values.Set("limit", "50")
		_, page, err := Read[tollgate.List[map[string]any]](api.Get(ctx, list, values))
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var words []cobra.Completion
		for _, entry := range page.Data {
			if id, _ := entry["id"].(string); tollgate.ValidID(id) && strings.HasPrefix(id, begun) {
				words = append(words, cobra.CompletionWithDesc(id, about(entry)))
			}
		}
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// about says of an object what tells it from others.
func about(entry map[string]any) string {
	var parts []string
	for _, member := range []string{"type", "status", "amount", "currency", "payee", "name", "url", "dataset"} {
		if text, ok := entry[member].(string); ok {
			parts = append(parts, text)
		}
	}
	return Printable(strings.Join(parts, " "))
}
