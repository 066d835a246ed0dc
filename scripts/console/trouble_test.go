package console

import (
	"net"
	"os/exec"
	"strings"
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

// command runs a command, and returns the lines of its answer.
func (r *redis) command(args ...string) []string {
	r.t.Helper()
	_, port, _ := net.SplitHostPort(r.addr)
	out, err := exec.Command("redis-cli", append([]string{"-h", "127.0.0.1", "-p", port}, args...)...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%q: %v: %s", args, err, out)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// A payout whose sum Redis no longer has right is held, and its page says why. Letting
// it go promises no amount but that of its captures, and that is what is paid.
func TestHeldPayout(t *testing.T) {
	t.Parallel()
	r := &redis{t: t, dir: t.TempDir(), addr: freeAddr(t)}
	r.start()
	t.Cleanup(func() { r.kill() })
	s := dev(t, "--redis", "redis://"+r.addr)
	s.pay(object{"capture_method": "automatic"})
	for _, key := range r.command("KEYS", "*:payable") {
		for _, field := range r.command("HKEYS", key) {
			if strings.HasSuffix(field, "/c") {
				r.command("HSET", key, field, "90000")
			}
		}
	}
	s.ask("POST", "/v1/sandbox/clock", object{"advance": "240h"})
	s.renew()
	var id string
	for began := time.Now(); id == ""; time.Sleep(50 * time.Millisecond) {
		for _, p := range s.ask("GET", "/v1/payouts?status=held", nil).list("data") {
			id = p.text("id")
		}
		if time.Since(began) > patience {
			t.Fatal("no payout is held")
		}
	}
	entry, address := s.beside("--write")
	b := launch(t)
	b.open(entry)
	b.shows("can write")
	b.open(address + "/" + id)
	b.shows("Held because its transactions add up to 97.75")
	b.written()
	b.click("main button", "Let it go")
	const says = `document.querySelector("dialog[open]")?.innerText.replace(/\s+/g, " ")`
	b.within(says+`?.includes(%s)`, "added up again")
	if text := eval[string](b, says); strings.Contains(text, "897.75 EUR are paid") {
		t.Errorf("it promises what is not due: %s", text)
	}
	b.fill("dialog [name=reason]", "looked at")
	if sent := b.written(); len(sent) > 0 {
		t.Errorf("before its button is pressed the page sends %q", sent)
	}
	b.click("dialog button.main", "Let it go")
	b.within(`!document.querySelector("dialog[open]")`)
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		p := s.ask("GET", "/v1/payouts/"+id, nil)
		if p.text("status") == "paid" && p.text("amount") == "97.75" {
			break
		}
		if time.Since(began) > patience {
			t.Fatalf("it is %s: %s", p.text("status"), p.text("amount"))
		}
	}
	b.open(address + "/" + id)
	b.shows("Payout of 97.75 EUR")
	b.quiet("letting it go")
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
		"payments": "order-17", id: "order-17", "audit": "payment.create", "perimeters": "no budget", "accounts": "rule:card_fee@v2", s.env["TOLLGATE_WEBHOOK"]: "Deliveries", "payouts": "Nothing is captured and not yet paid.", "webhooks": "Endpoint", "exports": "There is no export.", "events": "payment.authorized",
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
		// What is asked first may still find a connection that is broken: one tries again.
		for began := time.Now(); !eval[bool](b, `document.body.innerText.replace(/\s+/g, " ").includes(%s)`, after); time.Sleep(50 * time.Millisecond) {
			if time.Since(began) > patience {
				t.Fatalf("%s never shows %q", path, after)
			}
			eval[any](b, `void document.querySelector("main .fault button")?.click()`)
			b.within(settled)
		}
		b.within(settled)
		r.kill()
	}
	b.quiet("the outage", "status of 50")
}
