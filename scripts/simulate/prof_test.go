package simulate

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestSame(t *testing.T) {
	seed, _ := strconv.Atoi(os.Getenv("SEED"))
	var traces [2]strings.Builder
	var results [2]Result
	for i := range traces {
		traceTo = &traces[i]
		results[i] = tell(t, PlanOf(uint64(seed)), bend{}, false)
	}
	traceTo = nil
	fmt.Println(results[0].Trace, results[1].Trace, results[0].Commands, results[1].Commands)
	for i := range traces {
		os.WriteFile(fmt.Sprintf("/tmp/simtrace%d", i), []byte(traces[i].String()), 0o600)
	}
}
