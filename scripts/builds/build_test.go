// Package builds_test holds this build and earlier ones to what they promise each
// other on one Redis: `make builds`. The earlier ones are built from the
// repository's own history.
package builds_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"tollgate/cmd/tollgate/clitest"
	"tollgate/rediskv/redistest"
)

// process is a build that runs.
type process = clitest.Process

// The builds. previous is the last one without checksums, which runs beside this one
// while instances are updated; older is the last one without envelopes and refunds,
// first the first release. together is the last one that does not know the layout compact,
// compact the last one that does not know the layout dense.
const (
	compactCommit  = "66ff81d"
	togetherCommit = "b0464da"
	previousCommit = "4ca9e01"
	olderCommit    = "ed7db52"
	firstCommit    = "6025134"
)

// variable says that these tests are wanted: they build six programs.
const variable = "TOLLGATE_TEST_BUILDS"

// build is a program, and the scopes that it does not know.
type build struct {
	clitest.Program // its name is its version, which its deliveries name
	lacks           []string
}

var builds struct {
	this, compact, together, previous, older, first *build
}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if os.Getenv(variable) == "" {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "tollgate-builds-")
		if err == nil {
			defer os.RemoveAll(dir)
			err = buildAll(dir)
		}
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			return 1
		}
		return m.Run()
	}())
}

func buildAll(dir string) (err error) {
	if builds.this, err = compile(dir, "this", "../.."); err != nil {
		return err
	}
	if builds.compact, err = compileCommit(dir, "compact", compactCommit); err != nil {
		return err
	}
	if builds.together, err = compileCommit(dir, "together", togetherCommit); err != nil {
		return err
	}
	if builds.previous, err = compileCommit(dir, "previous", previousCommit); err != nil {
		return err
	}
	if builds.older, err = compileCommit(dir, "older", olderCommit); err != nil {
		return err
	}
	builds.first, err = compileCommit(dir, "first", firstCommit, "access:read", "payouts:write")
	return err
}

// compileCommit builds the program of a commit of the repository's history.
func compileCommit(dir, name, commit string, lacks ...string) (*build, error) {
	source := filepath.Join(dir, name+"-source")
	if err := os.Mkdir(source, 0o700); err != nil {
		return nil, err
	}
	archive := source + ".tar"
	if out, err := exec.Command("git", "-C", "../..", "archive", "-o", archive, commit).CombinedOutput(); err != nil {
		return nil, errors.New("commit " + commit + " is not in this clone: fetch the whole history (git fetch --unshallow) and run `make builds` again\n" + string(out))
	}
	if out, err := exec.Command("tar", "-xf", archive, "-C", source).CombinedOutput(); err != nil {
		return nil, errors.New("unpack " + commit + ": " + err.Error() + "\n" + string(out))
	}
	b, err := compile(dir, name, source)
	if err == nil {
		b.lacks = lacks
	}
	return b, err
}

func compile(dir, name, source string) (*build, error) {
	b := &build{Program: clitest.Program{Name: name, Path: filepath.Join(dir, "tollgate-"+name)}}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-X main.version="+name+" -X tollgate/cmd/tollgate/cli.version="+name, "-o", b.Path, "./cmd/tollgate")
	cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, errors.New("build " + name + ": " + err.Error() + "\n" + string(out))
	}
	return b, nil
}

// needBuilds skips a test where the programs are not wanted, and gives it an empty
// redis-server of its own.
func needBuilds(t *testing.T) (redisURL string) {
	t.Helper()
	if os.Getenv(variable) == "" {
		t.Skip("builds five programs: make builds")
	}
	if redistest.Kind(t) != redistest.Real {
		t.Fatalf("it needs a real Redis: %s=%s", redistest.Variable, redistest.Real)
	}
	return redistest.Fresh(t).URL
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
