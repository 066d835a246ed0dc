package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"tollgate/scripts/simulate/ledger"
)

// errChanged: Redis went back while everything was read.
var errChanged = errors.New("the history has changed")

// read asks the service for everything.
func (x *world) read(c *client) (ledger.Ledger, error) {
	return ledger.Read(func(path string) ([]byte, error) {
		said, known := c.send("GET", path, "", "")
		if historyCode(said) != "" {
			return nil, errChanged
		}
		if !known || said.status != http.StatusOK {
			return nil, fmt.Errorf("%d %s", said.status, said.body)
		}
		return said.body, nil
	}, limited)
}

// quiet says why not everything has come that has to come.
func (x *world) quiet(l ledger.Ledger) string {
	if missing := l.Missing(); missing != "" {
		return missing
	}
	if has := len(x.tailed(l)); !x.plan.Untailed && has < len(l.Events) {
		return fmt.Sprintf("who follows the events has %d of %d", has, len(l.Events))
	}
	return ""
}

// tailed are the events that the one who follows the log has got. Where Redis went back
// it has read what is lost, too, and what is not twice.
func (x *world) tailed(l ledger.Ledger) []string {
	x.judge.mu.Lock()
	defer x.judge.mu.Unlock()
	if _, ever := x.loss.back(); !ever {
		return x.judge.tailed
	}
	there := map[string]bool{}
	for _, e := range l.Events {
		there[e.ID] = true
	}
	return slices.DeleteFunc(slices.Clone(x.judge.tailed), func(id string) bool {
		is := there[id]
		there[id] = false
		return !is
	})
}

// settle waits until everything has come that has to come, and says what has not.
func (x *world) settle() (l ledger.Ledger, err error) {
	c := &client{world: x, name: "reader"}
	missing := ""
	for _, wait := range []time.Duration{20 * time.Second, 40 * time.Second, time.Minute, time.Minute, 3 * time.Minute, 5 * time.Minute} {
		pause(x.ctx, wait)
		if l, err = x.read(c); errors.Is(err, errChanged) { // it begins anew
			missing = err.Error()
			continue
		} else if err != nil {
			return l, err
		}
		if missing = x.quiet(l); missing == "" {
			return l, nil
		}
	}
	return l, fmt.Errorf("after all was well again: %s", missing)
}

// follow reads the log of events as it grows.
func (x *world) follow() {
	c := &client{world: x, name: "follower"}
	query := url.Values{}
	for page := 0; x.ctx.Err() == nil; page++ {
		query.Set("limit", fmt.Sprint(1+x.wire.chance.Of("page", page)%20))
		said, known := c.send("GET", "/v1/events?"+query.Encode(), "", "")
		var read struct {
			Data []struct {
				ID string `json:"id"`
			} `json:"data"`
			More bool   `json:"has_more"`
			Next string `json:"next_cursor"`
		}
		switch {
		case !known:
			continue
		case historyCode(said) != "": // it begins anew, and knows what it has read
			query.Del("cursor")
			continue
		case said.status != http.StatusOK || json.Unmarshal(said.body, &read) != nil:
			x.judge.wrong("who follows the events is answered %d %s", said.status, said.body)
			return
		}
		x.judge.mu.Lock()
		for _, e := range read.Data {
			x.judge.tailed = append(x.judge.tailed, e.ID)
		}
		x.judge.mu.Unlock()
		query.Set("cursor", read.Next)
		if !read.More {
			pause(x.ctx, 3*time.Second)
		}
	}
}
