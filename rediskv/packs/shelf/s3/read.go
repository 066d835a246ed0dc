package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"

	"tollgate/rediskv/packs/shelf"
)

// tail is how much of an object's end is read when it is opened: what packs.Open reads of a
// pack. A pack that is open keeps it.
const tail = 256 << 10

// object is one that is open for reading.
type object struct {
	bucket *Bucket
	key    string
	etag   string
	size   int64
	end    []byte // its last bytes
}

// Read opens a file with one request, which has its end as well.
func (b *Bucket) Read(ctx context.Context, name string) (shelf.Object, error) {
	o, err := b.open(ctx, name, tail)
	if err != nil {
		return nil, fmt.Errorf("read from shelf: %w", err)
	}
	return o, nil
}

// open opens a file, and reads so much of its end in bytes.
func (b *Bucket) open(ctx context.Context, name string, most int64) (*object, error) {
	key, err := b.key(name)
	if err != nil {
		return nil, err
	}
	var opts minio.GetObjectOptions
	if err := opts.SetRange(0, -most); err != nil {
		return nil, err
	}
	o := &object{bucket: b, key: key}
	err = try(ctx, b.within(most), func(ctx context.Context) error { return o.readEnd(ctx, opts, most) })
	if isStatus(err, http.StatusRequestedRangeNotSatisfiable) { // it is empty; of some servers: it is shorter
		err = try(ctx, b.within(most), func(ctx context.Context) error { return o.readEnd(ctx, minio.GetObjectOptions{}, most) })
	}
	if err != nil {
		return nil, b.fault(key, err)
	}
	return o, nil
}

// readEnd has an object know its size, its version and its end. Where the server sends more
// than that, all of a large object, nothing of it is read.
func (o *object) readEnd(ctx context.Context, opts minio.GetObjectOptions, most int64) error {
	body, info, header, err := o.bucket.client.GetObject(ctx, o.bucket.name, o.key, opts)
	if err != nil {
		return err
	}
	defer body.Close()
	from, to, size, err := extentOf(header, info.Size)
	if err != nil {
		return err
	}
	if to != size || info.ETag == "" {
		return fmt.Errorf("%w: asked for the end of an object, it sends bytes %d to %d of %d, with the ETag %.40q", errProtocol, from, to, size, info.ETag)
	}
	o.size, o.etag, o.end = size, info.ETag, nil
	if size-from > most {
		return nil
	}
	end := make([]byte, size-from)
	if _, err := io.ReadFull(body, end); err != nil {
		return err
	}
	o.end = end
	return nil
}

// extentOf is which bytes an answer has, from one up to another, and how many there are.
func extentOf(header http.Header, length int64) (from, to, size int64, err error) {
	said := header.Get("Content-Range")
	if said == "" {
		to, size = length, length
	} else if n, err := fmt.Sscanf(said, "bytes %d-%d/%d", &from, &to, &size); n != 3 || err != nil {
		return 0, 0, 0, fmt.Errorf("%w: its Content-Range is %.100q", errProtocol, said)
	} else {
		to++
	}
	if from < 0 || to < from || size < to || to-from != length {
		return 0, 0, 0, fmt.Errorf("%w: it sends %d bytes with the Content-Range %.100q", errProtocol, length, said)
	}
	return from, to, size, nil
}

func (o *object) Size() int64 { return o.size }

// ReadAt reads a range with one request, or with none if that is in the end.
func (o *object) ReadAt(ctx context.Context, p []byte, off int64) error {
	if err := o.readAt(ctx, p, off); err != nil {
		return fmt.Errorf("read %d bytes at %d from shelf: %w", len(p), off, err)
	}
	return nil
}

func (o *object) readAt(ctx context.Context, p []byte, off int64) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case off < 0:
		return errors.New("there is no byte before the first")
	case off > o.size || int64(len(p)) > o.size-off:
		return io.ErrUnexpectedEOF
	}
	end := o.size - int64(len(o.end))
	if last := off + int64(len(p)); last > end {
		n := max(end-off, 0)
		copy(p[n:], o.end[off+n-end:])
		p = p[:n]
	}
	if len(p) == 0 {
		return nil
	}
	return o.bucket.fault(o.key, try(ctx, o.bucket.within(int64(len(p))), func(ctx context.Context) error { return o.readRange(ctx, p, off) }))
}

// readRange reads some bytes of the object that was opened, and of no other.
func (o *object) readRange(ctx context.Context, p []byte, off int64) error {
	var opts minio.GetObjectOptions
	if err := errors.Join(opts.SetRange(off, off+int64(len(p))-1), opts.SetMatchETag(o.etag)); err != nil {
		return err
	}
	body, info, header, err := o.bucket.client.GetObject(ctx, o.bucket.name, o.key, opts)
	if err != nil {
		return err
	}
	defer body.Close()
	if info.ETag != o.etag { // a server may not know If-Match
		return errReplaced
	}
	from, to, size, err := extentOf(header, info.Size)
	if err != nil {
		return err
	}
	if from != off || to != off+int64(len(p)) || size != o.size {
		return fmt.Errorf("%w: asked for bytes %d to %d, it sends %d to %d of %d", errProtocol, off, off+int64(len(p)), from, to, size)
	}
	_, err = io.ReadFull(body, p)
	return err
}

func (o *object) Close() error { return nil }

// Text reads a small file with one request.
func (b *Bucket) Text(ctx context.Context, name string) ([]byte, error) {
	o, err := b.open(ctx, name, shelf.MaxText)
	if err != nil {
		return nil, fmt.Errorf("read text from shelf: %w", err)
	}
	if o.size > shelf.MaxText {
		return nil, fmt.Errorf("read text %s from shelf: it has %d bytes; at most %d", name, o.size, shelf.MaxText)
	}
	return o.end, nil
}
