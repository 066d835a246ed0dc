package main

// suite are benchmarks of one package that run the same number of times.
type suite struct {
	Package string // below the module
	Bench   string // go test -bench
	Times   string // -benchtime
	// Beside are files of the package that the commit before gets from here, so that both
	// measure alike.
	Beside []string
}

var suites = []suite{
	{"handlers", "^Benchmark(Create|Quote|Token)CPU$", "3000x", []string{"bench_test.go", "bench_cpu_test.go", "generator_test.go", "first_release_test.go", "testdata/first_release"}},
	{"handlers/worker", "^BenchmarkDeliveries$/^own$", "1x", []string{"bench_test.go"}},
	{"handlers/worker", "^BenchmarkLatency$/^beside0$", "300x", []string{"bench_test.go"}},
	{"wasm", "^BenchmarkQuote5Rules$", "100000x", []string{"bench_test.go"}},
}

// figure is what a benchmark has reported: the sum of some of its units.
type figure struct {
	Benchmark string
	Units     []string
}

// line is one measure of the table.
type line struct {
	Name  string
	Value figure
	Unit  string  // of the value; with a yardstick there is none
	Of    *figure // the yardstick of the same run; nil: the value stands for itself
	Says  string  // what the yardstick is
	// Speed divides the yardstick by the value, so that 1 is as fast as it; else the value
	// is divided.
	Speed bool
	Goal  float64 // what is to be reached; 0: nothing is
}

var (
	firstScript = figure{"CreateCPU/first", []string{"ns/op"}}
	router      = figure{"QuoteCPU/router", []string{"ns/op"}}
	signatures  = figure{"TokenCPU/signatures", []string{"service-µs/op"}}
)

var lines = []line{
	{"payments/s on 32 connections", figure{"CreateCPU/http", []string{"ns/op"}}, "", &firstScript, "the first release's script on 32 connections, and nothing else", true, 0.75},
	{"processor time of a payment, service and Redis", figure{"CreateCPU/http", []string{"service-µs/op", "redis-µs/op"}}, "µs", nil, "", false, 200},
	{"processor time of Redis for a payment", figure{"CreateCPU/http", []string{"redis-µs/op"}}, "", &figure{"CreateCPU/first", []string{"redis-µs/op"}}, "the first release's script on 32 connections", false, 0},
	{"quotes/s on 32 connections", figure{"QuoteCPU/http", []string{"ns/op"}}, "", &router, "a bare httprouter that reads the same JSON strictly and answers 600 bytes", true, 0.65},
	{"tokens/s by processor time, service and Redis", figure{"TokenCPU/http", []string{"service-µs/op", "redis-µs/op"}}, "", &signatures, "one ES256 signature checked and one made", true, 0.47},
	{"deliveries/s from a backlog, by processor time", figure{"Deliveries/own", []string{"cpu-of-bare"}}, "", nil, "a loop that signs and posts the same bodies", true, 0.45},
	{"first attempt after its commit, p50", figure{"Latency/beside0", []string{"p50-ms"}}, "ms", nil, "", false, 3},
	{"five pricing rules, without HTTP", figure{"Quote5Rules", []string{"ns/op"}}, "ns", nil, "", false, 450},
	{"allocations of a payment", figure{"CreateCPU/http", []string{"allocs/op"}}, "", nil, "", false, 0},
	{"allocations of a quote", figure{"QuoteCPU/http", []string{"allocs/op"}}, "", nil, "", false, 0},
	{"allocations of a token", figure{"TokenCPU/http", []string{"allocs/op"}}, "", nil, "", false, 0},
}
