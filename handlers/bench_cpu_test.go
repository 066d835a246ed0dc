package handlers_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/julienschmidt/httprouter"

	"tollgate/rediskv/redistest"
)

// These benchmarks report what a request costs in processor time: of this process,
// which is the service alone, and of its Redis. Unlike a rate it is the same beside
// others who use the machine. Each stands beside a yardstick: what the request cannot
// do without.

// connections are as many as ask at once.
const connections = 32

// usage is what processes have used so far, in microseconds, by what a benchmark calls it.
type usage map[string]func() float64

// ownUsage is that of this process, the service.
func ownUsage(b *testing.B) usage {
	return usage{"service-µs/op": func() float64 {
		var used syscall.Rusage
		check(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
		return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e3
	}}
}

// withRedis adds a Redis.
func (u usage) withRedis(b *testing.B, url string) usage {
	u["redis-µs/op"] = func() float64 { return redistest.CPU(b, url) }
	return u
}

// measureCPU sends b.N requests and reports what each has used.
func measureCPU(b *testing.B, u usage, send func(n int)) {
	b.Helper()
	send(500) // connections are made, caches filled
	before := make(map[string]float64)
	for name, used := range u {
		before[name] = used()
	}
	b.ReportAllocs()
	b.ResetTimer()
	send(b.N)
	b.StopTimer()
	for name, used := range u {
		b.ReportMetric((used()-before[name])/float64(b.N), name)
	}
}

// generate is who sends requests to an address, with headers of their own.
func generate(address, path, headers, body string, status int) *generator {
	return &generator{
		Address: strings.TrimPrefix(address, "http://"), Status: status, Connections: connections,
		Request: fmt.Sprintf("POST %s HTTP/1.1\r\nHost: tollgate\r\n%s\r\n%s", path, headers, body),
	}
}

// asks has generate send JSON with the client's token.
func (f *benched) asks(address, path, headers, body string, status int) *generator {
	return generate(address, path, fmt.Sprintf("Authorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s", f.token, len(body), headers), body, status)
}

// A payment beside the script that it sends and that of the first release, on connections
// that do nothing else.
func BenchmarkCreateCPU(b *testing.B) {
	url := realRedis(b)
	script, first := captureScript(b, url), scriptOfFirstRelease(b, url)
	b.Run("evalsha", func(b *testing.B) {
		wire := script.dial(b)
		measureCPU(b, usage{}.withRedis(b, url), func(n int) {
			for range n {
				check(b, wire.run(context.Background()))
			}
		})
	})
	b.Run("first", func(b *testing.B) {
		measureCPU(b, usage{}.withRedis(b, url), first.together(b))
	})
	b.Run("http", func(b *testing.B) {
		f := payments(b, url)
		measureCPU(b, ownUsage(b).withRedis(b, url), f.asks(f.url, "/v1/payments", "Idempotency-Key: cpu-"+ownSerial+"\r\n", `{`+good+`}`, 201).start(b))
	})
}

// A quote beside a router that reads the same body strictly and answers as much.
func BenchmarkQuoteCPU(b *testing.B) {
	b.Run("router", func(b *testing.B) {
		bare := bareRouter(b)
		measureCPU(b, ownUsage(b), (&benched{}).asks(bare.URL, "/v1/quotes", "", `{`+good+`}`, 200).start(b))
	})
	b.Run("http", func(b *testing.B) {
		f := startBench(b, redistest.URL(b))
		measureCPU(b, ownUsage(b), f.asks(f.url, "/v1/quotes", "", `{`+good+`}`, 200).start(b))
	})
}

// bareRouter answers 600 bytes.
func bareRouter(b *testing.B) *httptest.Server {
	b.Helper()
	router := httprouter.New()
	text := []byte(strings.Repeat("x", 600))
	router.POST("/v1/quotes", func(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
		var body struct {
			Amount   string `json:"amount"`
			Currency string `json:"currency"`
			Payee    string `json:"payee"`
		}
		if err := json.UnmarshalRead(http.MaxBytesReader(w, r.Body, 64<<10), &body, json.RejectUnknownMembers(true)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = w.Write(text)
	})
	server := httptest.NewServer(router)
	b.Cleanup(server.Close)
	return server
}

// A token beside the two signatures that it cannot do without: one is checked, one is
// made.
func BenchmarkTokenCPU(b *testing.B) {
	b.Run("signatures", func(b *testing.B) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		check(b, err)
		digest := sha256.Sum256([]byte("a token"))
		measureCPU(b, ownUsage(b), func(n int) {
			for range n {
				signed, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
				check(b, err)
				if !ecdsa.VerifyASN1(&key.PublicKey, digest[:], signed) {
					b.Fatal("not its signature")
				}
			}
		})
	})
	b.Run("http", func(b *testing.B) {
		url := realRedis(b)
		f := startBench(b, url)
		form := strings.Replace(tokenForm("@").Encode(), "%40", ownAssertion, 1)
		g := generate(f.url, "/oauth2/token", "Content-Type: application/x-www-form-urlencoded\r\n", form, 200)
		g.Private, g.Client = f.private, f.clientID
		measureCPU(b, ownUsage(b).withRedis(b, url), g.start(b))
	})
}
