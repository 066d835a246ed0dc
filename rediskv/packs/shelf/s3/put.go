package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"

	"github.com/minio/minio-go/v7"

	"tollgate/rediskv/packs/shelf"
)

// Put puts a file with one request, which the server takes only if there is none yet and the
// content has the SHA-256 that it is said to have. A server that does not know the condition
// is asked first: there, of two that put another content at the same moment, one can replace
// the other's. A reader that is no io.Seeker is held in memory.
func (b *Bucket) Put(ctx context.Context, name string, size int64, r io.Reader) error {
	key, err := b.key(name)
	if err == nil {
		err = b.put(ctx, key, size, r)
	}
	if err != nil {
		return fmt.Errorf("put %.200s on shelf: %w", name, err)
	}
	return nil
}

func (b *Bucket) put(ctx context.Context, key string, size int64, r io.Reader) error {
	c, err := contentOf(ctx, size, r)
	if err != nil {
		return err
	}
	same, err := b.compare(ctx, key, c)
	if isMissing(err) {
		if err = b.send(ctx, key, c); err == nil {
			return nil
		}
		if isStatus(err, http.StatusPreconditionFailed) { // somebody was faster, or this was with an answer that was lost
			same, err = b.compare(ctx, key, c)
		}
	}
	if err == nil && !same {
		return fmt.Errorf("s3://%s/%s has another content: %w", b.name, key, fs.ErrExist)
	}
	return b.fault(key, err)
}

// content is what is to be put.
type content struct {
	io.ReaderAt
	size int64
	sum  [sha256.Size]byte
}

// contentOf reads all of a content of a size in bytes once. A request that is made again
// reads it again, while the one before may not have ended.
func contentOf(ctx context.Context, size int64, r io.Reader) (*content, error) {
	h := sha256.New()
	within := max(size, 0) + 1
	if from, is := r.(interface {
		io.ReaderAt
		io.Seeker
	}); is {
		if off, err := from.Seek(0, io.SeekCurrent); err == nil {
			n, err := io.Copy(h, shelf.Reader(ctx, io.NewSectionReader(from, off, within)))
			if err == nil {
				err = shelf.CheckSize(n, size)
			}
			return &content{io.NewSectionReader(from, off, max(size, 0)), size, [sha256.Size]byte(h.Sum(nil))}, err
		}
	}
	var all bytes.Buffer
	n, err := io.Copy(io.MultiWriter(h, &all), io.LimitReader(shelf.Reader(ctx, r), within))
	if err == nil {
		err = shelf.CheckSize(n, size)
	}
	return &content{bytes.NewReader(all.Bytes()), size, [sha256.Size]byte(h.Sum(nil))}, err
}

// reader reads the content from its beginning. It is nothing else than an io.Reader: a client
// winds back and closes what can be.
func (c *content) reader() io.Reader {
	return struct{ io.Reader }{io.NewSectionReader(c, 0, c.size)}
}

// send puts a content, if there is none yet as far as the server knows conditions.
func (b *Bucket) send(ctx context.Context, key string, c *content) error {
	if !b.plain.Load() {
		var opts minio.PutObjectOptions
		opts.SetMatchETagExcept("*")
		opts.UserMetadata = map[string]string{"x-amz-checksum-sha256": base64.StdEncoding.EncodeToString(c.sum[:])}
		if err := b.sendWith(ctx, key, c, opts); !refusesHeader(err) {
			return err
		}
	}
	err := b.sendWith(ctx, key, c, minio.PutObjectOptions{})
	if err == nil {
		b.plain.Store(true)
	}
	return err
}

func (b *Bucket) sendWith(ctx context.Context, key string, c *content, opts minio.PutObjectOptions) error {
	opts.DisableContentSha256 = true // of chunks; that of all of it is signed, and every server compares it
	return try(ctx, b.within(c.size), func(ctx context.Context) error {
		_, err := b.client.PutObject(ctx, b.name, key, c.reader(), c.size, "", hex.EncodeToString(c.sum[:]), opts)
		return err
	})
}

// refusesHeader says whether a server may not know a header that not every server does.
func refusesHeader(err error) bool {
	code := minio.ToErrorResponse(err).Code
	return isStatus(err, http.StatusNotImplemented) ||
		isStatus(err, http.StatusBadRequest) && slices.Contains([]string{"NotImplemented", "InvalidArgument", "InvalidRequest"}, code)
}

// compare says whether an object has a content. It keeps none of it.
func (b *Bucket) compare(ctx context.Context, key string, c *content) (same bool, err error) {
	err = try(ctx, b.within(c.size), func(ctx context.Context) error {
		body, info, _, err := b.client.GetObject(ctx, b.name, key, minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		defer body.Close()
		if same = info.Size == c.size; !same {
			return nil
		}
		h := sha256.New()
		_, err = io.Copy(h, body)
		same = [sha256.Size]byte(h.Sum(nil)) == c.sum
		return err
	})
	return same, err
}
