package faults

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"tollgate/cmd/tollgate/clitest"
)

// The variables that say which faults are wanted, and how many.
const (
	partVariable  = "TOLLGATE_TEST_FAULTS"       // kills, cuts, flips, network, slots, or all
	countVariable = "TOLLGATE_TEST_FAULTS_COUNT" // instead of a part's own number
	seedVariable  = "TOLLGATE_TEST_FAULTS_SEED"
)

// program is the service.
var program = clitest.Program{Name: "faults"}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if os.Getenv(partVariable) == "" {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "tollgate-faults-")
		if err == nil {
			defer os.RemoveAll(dir)
			err = build(dir)
		}
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			return 1
		}
		return m.Run()
	}())
}

func build(dir string) error {
	program.Path = filepath.Join(dir, "tollgate")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", program.Path, "./program")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.New("build the program: " + err.Error() + "\n" + string(out))
	}
	return nil
}

// plan is how a part is played: how many faults there are, and where it draws what they
// are. Moments are the machine's, so a seed plays the same faults, not the same run.
type plan struct {
	*rand.Rand
	seed  uint64
	count int
}

// planned skips a part that is not wanted.
func planned(t *testing.T, part string, count int) plan {
	t.Helper()
	if wanted := os.Getenv(partVariable); wanted != part && wanted != "all" {
		t.Skipf("plays with real processes for minutes: make faults PART=%s", part)
	}
	if text := os.Getenv(countVariable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("%s=%q: want a number of faults", countVariable, text)
		}
		count = n
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s=%q: want a number", seedVariable, text)
		}
	}
	p := plan{rand.New(rand.NewPCG(seed, 0)), seed, count}
	again := func() string {
		return "make faults PART=" + part + " COUNT=" + strconv.Itoa(count) + " SEED=" + strconv.FormatUint(seed, 10)
	}
	t.Logf("seed %d", seed)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to play the same faults again: %s", again())
		}
	})
	return p
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
