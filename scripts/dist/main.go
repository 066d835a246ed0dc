// Command dist makes a release: for each system an archive with the program, its man
// pages, its completions and a bill of materials (CycloneDX), and SHA256SUMS of all. The
// same source and version give the same bytes: `make dist-check` builds twice.
package main

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// release is what is made, and how.
type release struct {
	version string
	at      time.Time // of all files in the archives
	targets []string  // linux/amd64, …
	cache   string    // of the compiler; empty: the usual one
}

const everyTarget = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

func main() {
	r := release{}
	var out, targets string
	var seconds int64
	check := false
	flag.StringVar(&r.version, "version", "dev", "name of the release")
	flag.StringVar(&out, "out", "bin/dist", "where the archives are written; what is there goes")
	flag.StringVar(&targets, "targets", everyTarget, "systems and processors, separated by commas or spaces")
	flag.Int64Var(&seconds, "date", 0, "time of the files in the archives, in Unix seconds")
	flag.BoolVar(&check, "check", false, "make it twice, the second time with an empty cache, and compare")
	flag.Parse()
	r.at, r.targets = time.Unix(max(seconds, 315_619_200), 0).UTC(), targetsOf(targets) // zip knows no time before 1980
	err := r.make(context.Background(), out)
	if err == nil && check {
		err = r.again(context.Background(), out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func targetsOf(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' })
}

// again makes the release once more elsewhere, and compares the sums.
func (r release) again(ctx context.Context, out string) error {
	work, err := os.MkdirTemp("", "tollgate-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	r.cache = filepath.Join(work, "cache")
	if err := r.make(ctx, filepath.Join(work, "dist")); err != nil {
		return err
	}
	first, err := os.ReadFile(filepath.Join(out, sums))
	if err != nil {
		return err
	}
	second, err := os.ReadFile(filepath.Join(work, "dist", sums))
	if err != nil {
		return err
	}
	if string(first) != string(second) {
		return fmt.Errorf("two builds differ\n%s\n%s", first, second)
	}
	fmt.Println("two builds, one checksum")
	return nil
}

const sums = "SHA256SUMS"

// make writes all archives and their sums.
func (r release) make(ctx context.Context, out string) error {
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "tollgate-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	common, err := r.common(ctx, work)
	if err != nil {
		return err
	}
	var lines []string
	for _, target := range r.targets {
		name, err := r.archive(ctx, work, out, target, common)
		if err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		content, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), name))
		fmt.Print(lines[len(lines)-1])
	}
	slices.Sort(lines)
	return os.WriteFile(filepath.Join(out, sums), []byte(strings.Join(lines, "")), 0o644)
}

// shells are those that the program writes completions for, with the file that each
// looks for.
var shells = map[string]string{"bash": "tollgate.bash", "zsh": "_tollgate", "fish": "tollgate.fish", "powershell": "tollgate.ps1"}

// common are the files that all archives have.
func (r release) common(ctx context.Context, work string) (files []file, err error) {
	program := filepath.Join(work, "man"+exeOf(runtime.GOOS))
	if err := r.build(ctx, program, runtime.GOOS, runtime.GOARCH, "-tags", "man"); err != nil {
		return nil, err
	}
	pages := filepath.Join(work, "man1")
	if _, err := run(exec.CommandContext(ctx, program, "man", "--date", fmt.Sprint(r.at.Unix()), pages)); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(pages)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if files, err = appendFile(files, "man/man1/"+e.Name(), filepath.Join(pages, e.Name())); err != nil {
			return nil, err
		}
	}
	for shell, name := range shells {
		text, err := run(exec.CommandContext(ctx, program, "completion", shell))
		if err != nil {
			return nil, err
		}
		files = append(files, file{"completions/" + name, []byte(text), false})
	}
	for _, name := range []string{"LICENSE", "README.md"} {
		if files, err = appendFile(files, name, name); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func appendFile(files []file, name, from string) ([]file, error) {
	content, err := os.ReadFile(from)
	return append(files, file{name, content, false}), err
}

// archive makes that of one target and returns its name.
func (r release) archive(ctx context.Context, work, out, target string, common []file) (name string, err error) {
	system, processor, ok := strings.Cut(target, "/")
	if !ok {
		return "", fmt.Errorf("a target is a system and a processor, such as linux/amd64")
	}
	program := filepath.Join(work, "tollgate"+exeOf(system))
	if err := r.build(ctx, program, system, processor); err != nil {
		return "", err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	bill, err := billOf(program, r.version, r.at)
	if err != nil {
		return "", err
	}
	folder := fmt.Sprintf("tollgate_%s_%s_%s", r.version, system, processor)
	files := append(slices.Clone(common), file{filepath.Base(program), content, true}, file{"tollgate.cdx.json", bill, false})
	pack, ending := tarball, ".tar.gz"
	if system == "windows" {
		pack, ending = zipped, ".zip"
	}
	packed, err := pack(folder, files, r.at)
	if err != nil {
		return "", err
	}
	return folder + ending, os.WriteFile(filepath.Join(out, folder+ending), packed, 0o644)
}

func exeOf(system string) string {
	if system == "windows" {
		return ".exe"
	}
	return ""
}

// build compiles the program for a system. Nothing of this machine gets into it.
func (r release) build(ctx context.Context, to, system, processor string, args ...string) error {
	args = append([]string{
		"build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X tollgate/cmd/tollgate/cli.version=" + r.version, "-o", to,
	}, args...)
	c := exec.CommandContext(ctx, "go", append(args, "./cmd/tollgate")...)
	c.Env = append(c.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+processor, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=")
	if r.cache != "" {
		c.Env = append(c.Env, "GOCACHE="+r.cache)
	}
	_, err := run(c)
	return err
}

// run returns what a command prints, and with an error what it complains of.
func run(c *exec.Cmd) (string, error) {
	var complaint strings.Builder
	c.Stderr = &complaint
	text, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(c.Path), err, strings.TrimSpace(complaint.String()))
	}
	return string(text), nil
}
