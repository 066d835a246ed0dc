package rediskv_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/exports"
	"tollgate/rediskv/webhooks"
)

// sendable is an endpoint with one delivery that is due.
func (f *fixture) sendable(t *testing.T) *tollgate.StoredWebhook {
	t.Helper()
	w := f.endpoint(t)
	f.Pay(t, eur(100), tollgate.CaptureManual)
	f.fanOut(t, "a")
	return w
}

// describe changes an endpoint.
func (f *fixture) describe(t *testing.T, id, text string) error {
	t.Helper()
	r, err := f.changeWebhook(t, *f.webhook(t, id), func(w *tollgate.WebhookEndpoint) { w.Description = &text })
	return first(r, err, 200)
}

// partition is the fixture's.
func (f *fixture) partition(t *testing.T) int {
	t.Helper()
	for p := range f.Partitions() {
		if !f.skip(t, p) {
			return p
		}
	}
	t.Fatal("no partition")
	return 0
}

var retrying = webhooks.Outcome{State: tollgate.DeliveryRetrying, StatusCode: 503, Reason: "http_503"}

var webhookResends = []resend{
	{"commit", "a creation, and it is deleted", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		w := f.endpoint(t).WebhookEndpoint
		w.ID = f.NewID(tollgate.PrefixWebhook)
		return func(through *fixture) error {
			r, err := through.createWebhook(t, tollgate.StoredWebhook{WebhookEndpoint: w})
			return first(r, err, 201)
		}, func() { must(t, f.deleteWebhook(t, *f.webhook(t, w.ID))) }
	}},
	{"commit", "a change without a key, and another change", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		id := f.endpoint(t).ID
		return func(through *fixture) error { return through.describe(t, id, "first") }, func() { must(t, f.describe(t, id, "second")) }
	}},
	{"commit", "a deletion, and that of another endpoint", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		w, other := f.endpoint(t), f.endpoint(t)
		return func(through *fixture) error { return through.deleteWebhook(t, *w) },
			func() { must(t, f.deleteWebhook(t, *other)) }
	}},
	{"commit", "a ping, and the endpoint is deleted", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		w := f.endpoint(t)
		ping, err := tollgate.PingWebhook(f.NewID, f.Origin(f.Caller), w)
		must(t, err)
		return func(through *fixture) error {
			r, err := through.CommitPing(t.Context(), f.Caller, nil, ping, rediskv.Answer{Status: 202})
			return first(r, err, 202)
		}, func() { must(t, f.deleteWebhook(t, *w)) }
	}},
	{"fan_out", "there is another endpoint", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		f.endpoint(t)
		f.Pay(t, eur(100), tollgate.CaptureManual)
		p := f.partition(t)
		return func(through *fixture) error {
			f, err := through.FanOut(t.Context(), p, "a", time.Millisecond, nil)
			if err == nil && f.Events != 1 {
				err = fmt.Errorf("%d events", f.Events)
			}
			return err
		}, func() { f.endpoint(t) }
	}},
	{"fan_out", "what it leased, and the endpoint is changed", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		w := f.endpoint(t)
		f.Pay(t, eur(100), tollgate.CaptureManual)
		p := f.partition(t)
		return func(through *fixture) error {
			f, err := through.FanOut(t.Context(), p, "a", time.Millisecond, &webhooks.Leasing{Reserve: upTo(10), For: lease})
			if err == nil && (f.Events != 1 || len(f.Work) != 1 || f.Work[0].Number != 1 || f.Queued != 0) {
				err = fmt.Errorf("%w: %+v", errNotTaken, f)
			}
			return err
		}, func() { must(t, f.describe(t, w.ID, "changed")) }
	}},
	{"fan_out", "what it leased, and the organization is changed", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		f.endpoint(t)
		f.Pay(t, eur(100), tollgate.CaptureManual)
		p := f.partition(t)
		return func(through *fixture) error {
			f, err := through.FanOut(t.Context(), p, "a", time.Millisecond, &webhooks.Leasing{Reserve: upTo(10), For: lease})
			if err == nil && (f.Events != 1 || len(f.Work) != 1 || f.Work[0].Number != 1 || f.Queued != 0) {
				err = fmt.Errorf("%w: %+v", errNotTaken, f)
			}
			return err
		}, func() { f.rename(t) }
	}},
	{"take_work", "the endpoint is changed and disabled", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		w := f.sendable(t)
		p := f.partition(t)
		return func(through *fixture) error {
				work, _, err := through.TakeDue(t.Context(), p, upTo(10), lease)
				if err == nil && (len(work) != 1 || work[0].Number != 1 || work[0].Run != 1 || work[0].Died || work[0].EventID == "" || work[0].Trigger != tollgate.TriggeredBySchedule) {
					err = fmt.Errorf("%w: %+v", errNotTaken, work)
				}
				return err
			}, func() {
				_, err := f.disableWebhook(t, *w)
				must(t, err)
			}
	}},
	{"give_back", "another worker has it", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		f.sendable(t)
		p := f.partition(t)
		work, _, err := f.TakeDue(t.Context(), p, upTo(10), lease)
		must(t, err)
		return func(through *fixture) error {
			through.Unsent(p, work)
			return through.EndUnsent(t.Context(), p)
		}, func() { f.take(t, 1) }
	}},
	{"record_attempts", "the next attempt is made", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		f.sendable(t)
		work := f.take(t, 1)[0]
		ended := retrying
		ended.Next = f.Now().Add(time.Second)
		return func(through *fixture) error {
				r, err := through.RecordAttempts(t.Context(), []webhooks.Ended{f.ended(work, ended)})
				if err == nil && r[0].Late {
					err = errors.New("late")
				}
				return err
			}, func() {
				f.Clock.Advance(time.Second)
				f.record(t, f.take(t, 1)[0], succeeded)
			}
	}},
	{"requeue", "a replay, and it is sent", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		w := f.sendable(t)
		d := f.take(t, 1)[0]
		f.record(t, d, succeeded)
		return func(through *fixture) error {
			_, err := through.replay(t, w.ID, d.DeliveryID)
			return err
		}, func() { f.record(t, f.take(t, 1)[0], succeeded) }
	}},
	{"requeue", "a recovery, and its first step", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		webhook, since := f.held(t, 2)
		return func(through *fixture) error { through.recover(t, webhook, since); return nil }, func() {
			_, err := f.runJobs(t, f.Store)
			must(t, err)
		}
	}},
	{"requeue", "a step of a recovery, and the next", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		webhook, since := f.held(t, missed)
		f.recover(t, webhook, since)
		return func(through *fixture) error {
				n, err := f.runJobs(t, through.Store)
				if err == nil && n != 500 {
					err = fmt.Errorf("looked at %d", n)
				}
				return err
			}, func() {
				_, err := f.runJobs(t, f.Store)
				must(t, err)
			}
	}},
	{"forget_consumer", "and there is another worker", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		raw, p := rawClient(t, f.URL), f.partition(t)
		stream := f.tag + ":exports"
		must(t, raw.XGroupCreateMkStream(t.Context(), stream, "workers", "0").Err())
		must(t, raw.XGroupCreateConsumer(t.Context(), stream, "workers", "a").Err())
		return func(through *fixture) error { return through.ForgetConsumers(t.Context(), p, -time.Hour) },
			func() { must(t, raw.XGroupCreateConsumer(t.Context(), stream, "workers", "b").Err()) }
	}},
}

var payoutResends = []resend{
	{"close_day", "the account is changed", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		return func(through *fixture) error {
			_, err := through.CloseDays(t.Context(), f.Caller.Organization, f.Config.MerchantAccounts[0].ID)
			return err
		}, func() { f.rename(t) }
	}},
	{"commit", "a payout is checked, and another worker carries it on", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
		f.days(7)
		_, err := f.CloseDays(t.Context(), f.Caller.Organization, f.Config.MerchantAccounts[0].ID)
		must(t, err)
		id := *f.payouts(t)[0].PayoutID
		return func(through *fixture) error {
				_, err := through.MovePayout(t.Context(), f.Caller.Organization, id)
				return err
			}, func() {
				_, err := f.MovePayout(t.Context(), f.Caller.Organization, id)
				must(t, err)
			}
	}},
	{"commit", "a payout is held, and released", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		id := f.wrongPayout(t)
		return func(through *fixture) error {
				_, err := through.MovePayout(t.Context(), f.Caller.Organization, id)
				return err
			}, func() {
				f.release(t, id)
			}
	}},
	{"commit", "a payout is released, and paid", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		id := f.wrongPayout(t)
		_, err := f.MovePayout(t.Context(), f.Caller.Organization, id)
		must(t, err)
		return func(through *fixture) error {
				return through.releasePayout(t, id, "looked at")
			}, func() {
				_, err := f.MovePayout(t.Context(), f.Caller.Organization, id)
				must(t, err)
				must(t, taken(f.BeginPayout(t.Context(), f.Caller.Organization, id, time.Minute)))
			}
	}},
	{"note_damage", "the organization changes", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		id := f.Pay(t, eur(1000), tollgate.CaptureManual).ID
		raw := rawClient(t, f.URL)
		must(t, raw.HSet(t.Context(), scanKeys(t, raw, "*:"+id)[0], "amt", "1O").Err())
		return func(through *fixture) error {
			if _, _, err := through.Payment(t.Context(), rediskv.Caller{Organization: f.Caller.Organization}, id); !rediskv.IsDamage(err) {
				return fmt.Errorf("the payment is read: %w", err)
			}
			return nil
		}, func() { f.rename(t) }
	}},
	{"make_payout", "another worker carries it on", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
		f.days(7)
		return func(through *fixture) error {
				n, err := through.CloseDays(t.Context(), f.Caller.Organization, f.Config.MerchantAccounts[0].ID)
				if err == nil && n != 1 {
					err = fmt.Errorf("%d payouts", n)
				}
				return err
			}, func() {
				_, err := f.MovePayout(t.Context(), f.Caller.Organization, *f.payouts(t)[0].PayoutID)
				must(t, err)
			}
	}},
	{"move_members", "another worker begins to pay", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
		f.days(7)
		_, err := f.CloseDays(t.Context(), f.Caller.Organization, f.Config.MerchantAccounts[0].ID)
		must(t, err)
		id := *f.payouts(t)[0].PayoutID
		return func(through *fixture) error {
				_, err := through.MovePayout(t.Context(), f.Caller.Organization, id)
				return err
			}, func() {
				_, err := f.BeginPayout(t.Context(), f.Caller.Organization, id, time.Minute)
				must(t, err)
			}
	}},
	{"commit", "a payout is begun, and nobody else has it", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		p := f.begun(t)
		f.DiedPaying(t, p.ID, time.Hour)
		return func(through *fixture) error {
			return taken(through.BeginPayout(t.Context(), f.Caller.Organization, p.ID, time.Minute))
		}, func() { f.rename(t) }
	}},
	{"commit", "a payout is begun, the lease runs out and another worker has it", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		p := f.begun(t)
		f.DiedPaying(t, p.ID, time.Hour)
		return func(through *fixture) error {
				// To pay what another worker pays now would be the harm.
				if err := taken(through.BeginPayout(t.Context(), f.Caller.Organization, p.ID, time.Minute)); !errors.Is(err, errNotTaken) {
					return fmt.Errorf("two workers have it: %w", err)
				}
				return nil
			}, func() {
				f.DiedPaying(t, p.ID, time.Hour)
				must(t, taken(f.BeginPayout(t.Context(), f.Caller.Organization, p.ID, time.Minute)))
			}
	}},
	{"commit", "a payout ends, and what it paid is settled", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		p := f.begun(t)
		return func(through *fixture) error { return through.endPayout(t.Context(), p, paid(p)) }, func() {
			_, err := f.MovePayout(t.Context(), f.Caller.Organization, p.ID)
			must(t, err)
		}
	}},
}

func taken(p *tollgate.Payout, err error) error {
	if err == nil && p == nil {
		err = errNotTaken
	}
	return err
}

// job is an export in a worker's hands.
func (f *fixture) job(t *testing.T, consumer string) *exports.ExportJob {
	t.Helper()
	j, err := f.NextExport(t.Context(), f.partition(t), consumer, 0, nil)
	must(t, err)
	if j == nil {
		t.Error("no export")
	}
	return j
}

// exporting is a new export in a worker's hands.
func (f *fixture) exporting(t *testing.T) *exports.ExportJob {
	t.Helper()
	f.Pay(t, eur(100), tollgate.CaptureManual)
	_, err := f.newExport(t)
	must(t, err)
	return f.job(t, "a")
}

// deleted cancels an export, or drops its file.
func (f *fixture) deleted(t *testing.T, id string) {
	t.Helper()
	e, err := f.Export(t.Context(), f.Caller, id)
	must(t, err)
	must(t, f.deleteExport(t, e))
}

var exportResends = []resend{
	{"commit", "an export, which is canceled", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		facts, ch, err := f.newExportChange(t, tollgate.DatasetEvents, tollgate.FormatCSV, tollgate.ExportFilter{})
		must(t, err)
		return func(through *fixture) error {
			r, err := through.CommitExport(t.Context(), f.Caller, nil, facts, ch, rediskv.Answer{Status: 202})
			return first(r, err, 202)
		}, func() { f.deleted(t, ch.Export.ID) }
	}},
	{"begin_export", "another worker takes it over", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		j := f.exporting(t)
		return func(through *fixture) error {
			if err := through.BeginExport(t.Context(), j, true); !errors.Is(err, exports.ErrExportLost) {
				return fmt.Errorf("two workers have it: %w", err)
			}
			return nil
		}, func() { f.job(t, "b") }
	}},
	{"begin_export", "and nobody else has it", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		j := f.exporting(t)
		return func(through *fixture) error { return through.BeginExport(t.Context(), j, true) }, func() { f.rename(t) }
	}},
	{"append_export", "another worker takes it over and appends", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		j := f.exporting(t)
		return func(through *fixture) error { return through.AppendExport(t.Context(), j, []byte("one")) },
			func() { must(t, f.AppendExport(t.Context(), f.job(t, "b"), []byte("two"))) }
	}},
	{"leave_export", "another worker takes it over", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		j := f.exporting(t)
		return func(through *fixture) error { return through.LeaveExport(t.Context(), j) }, func() { f.job(t, "b") }
	}},
	{"commit", "an export ends, and a client drops the file", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		j := f.exporting(t)
		must(t, f.AppendExport(t.Context(), j, []byte("one")))
		return func(through *fixture) error { return through.finish(t, j) }, func() { f.deleted(t, j.ID) }
	}},
	{"free_export", "somebody else removes it, too", func(t *testing.T, f *fixture) (func(*fixture) error, func()) {
		e := f.export(t, tollgate.DatasetTickets, tollgate.FormatCSV, tollgate.ExportFilter{})
		must(t, f.deleteExport(t, e))
		return func(through *fixture) error {
				return through.RemoveExportFile(t.Context(), f.Caller.Organization, e.ID)
			},
			func() { must(t, f.RemoveExportFile(t.Context(), f.Caller.Organization, e.ID)) }
	}},
}
