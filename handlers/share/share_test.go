package share_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"tollgate/handlers/share"
)

// line takes turns in a queue of one and notes whose they were.
type line struct {
	t      *testing.T
	queue  *share.Queue
	served chan string
	next   chan struct{}
}

func (l *line) waits(ctx context.Context, organization, client, name string) {
	l.t.Helper()
	go func() {
		release, err := l.queue.Acquire(ctx, organization, client)
		if err != nil {
			l.served <- "refused " + name
			return
		}
		l.served <- name
		<-l.next
		release()
	}()
	synctest.Wait()
}

// passes has an organization take a turn and end it.
func (l *line) passes(organization string) {
	l.t.Helper()
	done, err := l.queue.Turn(l.t.Context(), organization, "cli_z")
	if err != nil {
		l.t.Fatal(err)
	}
	done()
}

// TestRounds: whoever asks for little is served within one round of the
// organizations, and within one of an organization's clients.
func TestRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := line{t, share.New(share.Limits{Turns: 1, Organization: 50, Client: 20}), make(chan string, 100), make(chan struct{})}
		for i := range 20 {
			l.waits(t.Context(), "org_greedy", "cli_a", fmt.Sprint("greedy a", i))
		}
		for i := range 3 {
			l.waits(t.Context(), "org_greedy", "cli_b", fmt.Sprint("greedy b", i))
		}
		l.waits(t.Context(), "org_modest", "cli_c", "modest 0")
		l.waits(t.Context(), "org_modest", "cli_c", "modest 1")
		var order []string
		for range 8 {
			order = append(order, <-l.served)
			l.next <- struct{}{}
			synctest.Wait()
		}
		want := []string{"greedy a0", "greedy a1", "modest 0", "greedy b0", "modest 1", "greedy a2", "greedy b1", "greedy a3"}
		if !slices.Equal(order, want) {
			t.Errorf("served %q\nwant   %q", order, want)
		}
		for range 25 - 8 {
			<-l.served
			l.next <- struct{}{}
		}
	})
}

// TestShares: over its share a client is refused at once, and so is an
// organization; others are not.
func TestShares(t *testing.T) {
	q := share.New(share.Limits{Organization: 3, Client: 2})
	enter := func(organization, client string, want error) func() {
		t.Helper()
		leave, err := q.Enter(organization, client)
		if !errors.Is(err, want) {
			t.Errorf("%s of %s: %v, want %v", client, organization, err, want)
		}
		return leave
	}
	enter("org_1", "cli_a", nil)
	leave := enter("org_1", "cli_a", nil)
	enter("org_1", "cli_a", share.ErrExhausted)
	enter("org_1", "cli_b", nil)
	enter("org_1", "cli_b", share.ErrExhausted) // its organization has three
	enter("org_2", "cli_c", nil)
	leave()
	leave = enter("org_1", "cli_a", nil) // both have room again
	leave()
	enter("org_1", "cli_b", nil)
}

// TestNobodyWaitsInVain: who no longer waits takes no turn, and a turn that was
// handed over in the last moment goes on to the next.
func TestNobodyWaitsInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := line{t, share.New(share.Limits{Turns: 1}), make(chan string, 10), make(chan struct{})}
		gone, leave := context.WithCancel(t.Context())
		l.waits(t.Context(), "org_1", "cli_a", "first")
		l.waits(gone, "org_2", "cli_b", "second")
		l.waits(t.Context(), "org_3", "cli_c", "third")
		if first := <-l.served; first != "first" {
			t.Fatal(first)
		}
		leave()
		synctest.Wait()
		if second := <-l.served; second != "refused second" {
			t.Fatal(second)
		}
		l.next <- struct{}{}
		if third := <-l.served; third != "third" {
			t.Fatal(third)
		}
		l.next <- struct{}{}
		synctest.Wait()
		l.waits(t.Context(), "org_1", "cli_a", "again")
		if again := <-l.served; again != "again" {
			t.Fatal(again)
		}
		l.next <- struct{}{}
	})
}

// TestBesideOthers: whoever has as many turns as one organization may have beside
// others waits for its own to end, and nobody waits for it.
func TestBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := line{t, share.New(share.Limits{Beside: 2}), make(chan string, 100), make(chan struct{})}
		l.passes("org_third")
		for i := range 4 {
			l.waits(t.Context(), "org_greedy", "cli_a", fmt.Sprint("a", i))
		}
		l.waits(t.Context(), "org_greedy", "cli_b", "b0")
		for i := range 2 {
			l.waits(t.Context(), "org_modest", "cli_c", fmt.Sprint("modest ", i))
		}
		if n := l.queue.Waiting("org_greedy"); n != 3 || len(l.served) != 4 {
			t.Errorf("%d of the greedy one's wait, %d are served", n, len(l.served))
		}
		done, err := l.queue.Turn(t.Context(), "org_third", "cli_d")
		if err != nil {
			t.Fatal(err)
		}
		done() // which is nobody else's
		synctest.Wait()
		if n := l.queue.Waiting("org_greedy"); n != 3 {
			t.Errorf("%d of the greedy one's wait", n)
		}
		for range 7 {
			l.next <- struct{}{}
			synctest.Wait()
		}
		var order []string
		for range 7 {
			order = append(order, <-l.served)
		}
		if want := []string{"a0", "a1", "modest 0", "modest 1", "a2", "b0", "a3"}; !slices.Equal(order, want) {
			t.Errorf("served %q\nwant   %q", order, want)
		}
	})
}

// TestSetTurns: more turns are given at once to those who wait, and fewer take
// from nobody.
func TestSetTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := line{t, share.New(share.Limits{Turns: 1}), make(chan string, 100), make(chan struct{})}
		l.passes("org_other")
		for i := range 5 {
			l.waits(t.Context(), "org_greedy", "cli_a", fmt.Sprint("a", i))
		}
		for _, step := range []struct{ all, beside, served int }{{3, 0, 3}, {1, 0, 3}, {9, 3, 3}, {9, 4, 4}, {0, 0, 5}} {
			l.queue.SetTurns(step.all, step.beside)
			synctest.Wait()
			if len(l.served) != step.served {
				t.Errorf("%d turns, %d of one organization: %d are served, not %d", step.all, step.beside, len(l.served), step.served)
			}
		}
		for range 5 {
			l.next <- struct{}{}
		}
	})
}

// TestAlone: whoever is alone has every turn, and fewer as soon as another is
// there, until it has not been for a while.
func TestAlone(t *testing.T) {
	q := share.New(share.Limits{Beside: 1})
	l := line{t: t, queue: q}
	const many = 50
	most := func() (n int) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		var held []func()
		for q.Waiting("org_greedy") == 0 && len(held) < many {
			got := make(chan func(), 1)
			asking.Go(func() {
				if done, err := q.Turn(ctx, "org_greedy", "cli_a"); err == nil {
					got <- done
				}
			})
			for len(got) == 0 && q.Waiting("org_greedy") == 0 {
				runtime.Gosched()
			}
			if len(got) > 0 {
				held = append(held, <-got)
			}
		}
		cancel()
		asking.Wait()
		for _, done := range held {
			done()
		}
		return len(held)
	}
	if n := most(); n != many {
		t.Errorf("alone it has %d turns", n)
	}
	l.passes("org_modest")
	if n := most(); n != 1 {
		t.Errorf("beside another it has %d turns", n)
	}
	for range 9_000 {
		l.passes("org_greedy")
	}
	if n := most(); n != 1 {
		t.Errorf("a little after another it has %d turns", n)
	}
	for range 1_000 {
		l.passes("org_greedy")
	}
	if n := most(); n != many {
		t.Errorf("long after the other it has %d turns", n)
	}
}

// TestNotice: a turn that an organization has waited for is told of, too, when the
// one before was its own and others are there.
func TestNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noticed := 0
		l := line{t, share.New(share.Limits{Turns: 1, Notice: func() { noticed++ }}), make(chan string, 100), make(chan struct{})}
		l.passes("org_greedy")
		l.passes("org_greedy") // alone
		l.passes("org_modest")
		for _, name := range []string{"a0", "a1", "a2"} {
			l.waits(t.Context(), "org_greedy", "cli_a", name)
		}
		l.waits(t.Context(), "org_modest", "cli_b", "b0")
		for i, want := range []struct {
			served  string
			noticed int
		}{{"a0", 0}, {"a1", 1}, {"b0", 1}, {"a2", 1}} {
			if served := <-l.served; served != want.served || noticed != want.noticed {
				t.Errorf("turn %d: %s, others noticed %d times, want %v", i, served, noticed, want)
			}
			l.next <- struct{}{}
			synctest.Wait()
		}
	})
}
