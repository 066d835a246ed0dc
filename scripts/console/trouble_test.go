package console

import (
	"net"
	"os/exec"
	"testing"
	"time"
)

// redis is a server that can be killed and started again on its port.
type redis struct {
	t    *testing.T
	dir  string
	addr string
	cmd  *exec.Cmd
}

func (r *redis) start() {
	r.t.Helper()
	_, port, err := net.SplitHostPort(r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.cmd = exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", r.dir, "--appendonly", "yes", "--appendfsync", "always", "--save", "", "--maxmemory-policy", "noeviction")
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", r.addr); err == nil {
			c.Close()
			return
		}
		if time.Since(began) > patience {
			r.t.Fatal("redis-server does not start")
		}
	}
}

func (r *redis) kill() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

// While Redis is away each page says what is wrong and offers to try again; when it is
// back, that is enough.
func TestLostRedis(t *testing.T) {
	t.Parallel()
	r := &redis{t: t, dir: t.TempDir(), addr: freeAddr(t)}
	r.start()
	t.Cleanup(func() { r.kill() })
	s := dev(t, "--redis", "redis://"+r.addr)
	id := s.pay(object{"reference": "order-17"}).text("id")
	b := launch(t)
	b.open(s.entry)
	b.shows("order-17")
	r.kill()
	for path, after := range map[string]string{
		"payments": "order-17", id: "order-17", "perimeters": "no budget", "accounts": "rule:card_fee@v2", s.env["TOLLGATE_WEBHOOK"]: "Deliveries", "payouts": "Nothing is captured and not yet paid.", "webhooks": "Endpoint", "exports": "There is no export.", "events": "payment.authorized",
	} {
		b.click(`header [href="/console/rules"]`, "Rules") // its list needs nothing of Redis that is gone
		eval[any](b, `void (history.pushState(null, "", "/console/" + %s), dispatchEvent(new Event("tollgate:go")))`, path)
		b.within(`document.querySelector("main .fault")`)
		b.within(settled)
		if got := eval[string](b, `document.querySelector("main .fault").innerText`); len(got) < 20 || !eval[bool](b, `[...document.querySelectorAll("main .fault button")].some((e) => e.innerText === "Try again")`) {
			t.Errorf("%s says %q", path, got)
		}
		r.start()
		for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			if _, err := s.try("GET", "/v1/payments", nil); err == nil {
				break
			}
			if time.Since(began) > patience {
				t.Fatal("the service does not recover")
			}
		}
		for eval[bool](b, `(() => { const e = document.querySelector("main .fault button"); e?.click(); return Boolean(e); })()`) {
			b.within(settled)
		}
		b.shows(after)
		r.kill()
	}
	b.quiet("the outage", "status of 50")
}
