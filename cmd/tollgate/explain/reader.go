package explain

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/client"
)

// reader reads what an explanation needs, as far as the token goes. After an error
// nothing more is read.
type reader struct {
	*cli.Client
	ctx    context.Context
	e      *explanation
	scopes []string
	err    error
}

func (r *reader) askScopes() error {
	token, err := r.Authorization(r.ctx)
	if err == nil {
		r.scopes, err = client.ScopesOf(token)
	}
	return err
}

// next offers a command to those whose token has its scope.
func (r *reader) next(scope, command, why string) {
	if scope == "" || slices.Contains(r.scopes, scope) {
		r.e.Next = append(r.e.Next, step{cli.ShellQuote(r.App.Program) + " " + command, why})
	}
}

// missing notes what the token does not let one read, and reports whether that is all
// that is wrong.
func (r *reader) missing(what string, err error) bool {
	var refused *cli.Refusal
	if errors.As(err, &refused) && refused.Status == http.StatusForbidden {
		r.e.Unread = append(r.e.Unread, gap{what, refused.Message})
		return true
	}
	return false
}

// notFound reports whether the service has no such object.
func notFound(err error) bool {
	var refused *cli.Refusal
	return errors.As(err, &refused) && refused.Code == tollgate.CodeNotFound
}

// get reads an object that must be there; ok is false if the token may not, or after an
// error. It joins the explanation's objects.
func get[T any](r *reader, what, path string) (v T, ok bool) {
	if r.err != nil {
		return v, false
	}
	body, v, err := cli.Read[T](r.Get(r.ctx, path, nil))
	if err != nil {
		if !r.missing(what, err) {
			r.err = err
		}
		return v, false
	}
	r.e.Objects = append(r.e.Objects, body)
	return v, true
}

// maxPages bounds how far a list is read.
const maxPages = 20

// each hands over the entries of a list, page after page, until more is false. What is
// not found has none.
func each[T any](r *reader, what, path string, query url.Values, more func(raw cli.Raw, v T) bool) {
	if r.err != nil {
		return
	}
	if query == nil {
		query = url.Values{}
	}
	query.Set("limit", "100")
	for range maxPages {
		_, page, err := cli.Read[tollgate.List[cli.Raw]](r.Get(r.ctx, path, query))
		if err != nil {
			if !notFound(err) && !r.missing(what, err) {
				r.err = err
			}
			return
		}
		for _, raw := range page.Data {
			entry := tollgate.Listed[T]{}
			if r.err = cli.Parse(raw, &entry); r.err != nil {
				return
			}
			if entry.Damage == nil && !more(raw, entry.Value) {
				return
			}
		}
		if !page.HasMore || page.NextCursor == nil {
			return
		}
		query = url.Values{"cursor": {*page.NextCursor}, "limit": {"100"}} // it carries the filters
	}
	r.e.Unread = append(r.e.Unread, gap{"older " + what, "There are more than this command reads; list them."})
}

func escaped(id string) string { return url.PathEscape(id) }
