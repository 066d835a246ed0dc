package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

// fetchTries is how often in a row a download may break off without bringing
// anything.
const fetchTries = 5

// errWrite wraps what goes wrong on this side.
var errWrite = errors.New("write")

// fetch is a download on its way.
type fetch struct {
	c    *cli.Client
	e    *tollgate.Export
	to   io.Writer
	sum  hash.Hash
	have int64
	show *cli.Progress
}

// FetchExport downloads the file of an export. What arrives is put in place
// when it is whole and its checksum is right; nothing of it is left otherwise.
// A pipe or a device is no place for that: it gets what arrives.
func FetchExport(ctx context.Context, c *cli.Client, e *tollgate.Export, name string) error {
	if name == "-" {
		return fetchTo(ctx, c, e, c.App.Stdout)
	}
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		return fetchInto(ctx, c, e, name)
	}
	if name, err = followed(name); err != nil {
		return cli.UsageError(fmt.Errorf("--output: %w", err))
	}
	temporary, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*") // mode 0600
	if err != nil {
		return cli.UsageError(fmt.Errorf("--output: %w", err))
	}
	defer os.Remove(temporary.Name())
	err = fetchTo(ctx, c, e, temporary)
	if err == nil && info != nil {
		err = temporary.Chmod(info.Mode().Perm())
	}
	if err == nil {
		err = temporary.Sync()
	}
	if e := temporary.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(temporary.Name(), name)
	}
	return err
}

// fetchInto downloads the file into something that is there and stays.
func fetchInto(ctx context.Context, c *cli.Client, e *tollgate.Export, name string) error {
	to, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return cli.UsageError(fmt.Errorf("--output: %w", err))
	}
	err = fetchTo(ctx, c, e, to)
	if e := to.Close(); err == nil {
		err = e
	}
	return err
}

// followed is where a name leads through symbolic links, also to nothing yet.
func followed(name string) (string, error) {
	for range 40 { // as many as Linux follows
		link, err := os.Readlink(name)
		if err != nil { // it is none
			return name, nil
		}
		dir, err := filepath.EvalSymlinks(filepath.Dir(name))
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(dir, link)
		}
		name = link
	}
	return "", fmt.Errorf("%s: too many symbolic links", name)
}

func fetchTo(ctx context.Context, c *cli.Client, e *tollgate.Export, to io.Writer) error {
	f := &fetch{c: c, e: e, to: to, sum: sha256.New(), show: cli.NewProgress(c.App.Stderr, "bytes")}
	defer f.show.End()
	failures := 0
	for f.have < e.Result.Bytes {
		before := f.have
		err := f.part(ctx)
		if f.have > before {
			failures = 0
		}
		var refused *cli.Refusal
		switch {
		case ctx.Err() != nil:
			return cli.UnavailableError(fmt.Errorf("interrupted; fetch the file with --id %s", e.ID))
		case err == nil:
			continue
		case errors.Is(err, errWrite), errors.As(err, &refused) && !refused.Retriable():
			return err
		}
		if failures++; failures == fetchTries {
			return cli.UnavailableError(fmt.Errorf("the download broke off %d times at byte %d: %w", failures, f.have, err))
		}
		f.show.Say("the download broke off; going on")
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond << failures):
		}
	}
	if sum := hex.EncodeToString(f.sum.Sum(nil)); sum != e.Result.SHA256 || f.have != e.Result.Bytes {
		return fmt.Errorf("what arrived is not the file: %d bytes with SHA-256 %s, not %d with %s", f.have, sum, e.Result.Bytes, e.Result.SHA256)
	}
	return nil
}

// part asks for what is not there yet and writes what comes.
func (f *fetch) part(ctx context.Context) error {
	token, err := f.c.Authorization(ctx)
	if err != nil {
		return err
	}
	// Not the whole answer has a time-out, but the wait for each piece of it.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	patience := time.AfterFunc(f.c.HTTP.Timeout, cancel)
	defer patience.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.c.Base+exportPath(f.e.ID)+"/file", nil)
	if err != nil {
		return cli.UsageError(err)
	}
	request.Header = http.Header{
		"Authorization": {"Bearer " + token}, "User-Agent": {"tollgate/" + cli.VersionText()},
		"Accept-Encoding": {"identity"}, // ranges are of the file's own bytes
	}
	if f.have > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", f.have))
		request.Header.Set("If-Range", `"`+f.e.Result.SHA256+`"`)
	}
	endless := f.c.HTTP
	endless.Timeout = 0
	response, err := endless.Do(request)
	if err != nil {
		return cli.UnavailableError(err)
	}
	defer response.Body.Close()
	want := fmt.Sprintf("bytes %d-", f.have)
	switch {
	case response.StatusCode >= 300:
		text, err := io.ReadAll(io.LimitReader(response.Body, cli.MaxAnswer))
		if err != nil {
			return cli.UnavailableError(err)
		}
		return cli.NewRefusal(response, text, f.c.JSON)
	case f.have > 0 && (response.StatusCode != http.StatusPartialContent || !strings.HasPrefix(response.Header.Get("Content-Range"), want)):
		return fmt.Errorf("the server does not go on at byte %d", f.have)
	}
	buffer := make([]byte, 64<<10)
	for {
		n, err := response.Body.Read(buffer)
		patience.Reset(f.c.HTTP.Timeout)
		f.sum.Write(buffer[:n])
		if _, failed := f.to.Write(buffer[:n]); failed != nil {
			return errors.Join(errWrite, failed)
		}
		f.have += int64(n)
		f.show.Show(f.have, f.e.Result.Bytes)
		switch {
		case f.have > f.e.Result.Bytes, errors.Is(err, io.EOF) && f.have == f.e.Result.Bytes: // more than there is cannot be the file
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
	}
}
