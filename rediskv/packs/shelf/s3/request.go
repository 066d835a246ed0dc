package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"time"

	"github.com/minio/minio-go/v7"
)

const (
	attempts = 3
	pause    = 100 * time.Millisecond // before the second attempt; twice as long before the next
	patience = 30 * time.Second       // with an attempt, unless the options say another
	slowest  = 64 << 10               // bytes of a body a second
)

var (
	errReplaced = errors.New("it was replaced after it was opened")
	errProtocol = errors.New("the server does not answer as S3 does")
)

// within is how long an attempt may take that moves a body of a size in bytes.
func (b *Bucket) within(size int64) time.Duration {
	return b.patience + time.Duration(size/slowest)*time.Second
}

// try makes a request up to three times, until it has an answer that another attempt would
// not change. The client's own attempts are no use: it takes a body for read once it begins,
// and sends one again while the connection before may still read it.
func try(ctx context.Context, longest time.Duration, request func(context.Context) error) error {
	for n := 0; ; n++ {
		attempt, end := context.WithTimeout(ctx, longest)
		err := cut(request(attempt))
		end()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case n == attempts-1 || !passes(err):
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause << n):
		}
	}
}

// cut is the error of a body that has ended too early. It is no end of a file.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the connection was cut")
	}
	return err
}

// passes says whether an error may be gone with the next attempt.
func passes(err error) bool {
	answer, is := errors.AsType[minio.ErrorResponse](err)
	if !is {
		return !errors.Is(err, errProtocol) && !errors.Is(err, errReplaced)
	}
	again := []string{"RequestTimeout", "ConditionalRequestConflict", "OperationAborted", "SlowDown", "ExpiredToken"}
	return answer.StatusCode >= 500 && answer.StatusCode != http.StatusNotImplemented ||
		answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusRequestTimeout || slices.Contains(again, answer.Code)
}

// isMissing says whether an answer is that there is no such object.
func isMissing(err error) bool {
	answer, is := errors.AsType[minio.ErrorResponse](err)
	return is && answer.StatusCode == http.StatusNotFound && answer.Code != "NoSuchBucket"
}

// isStatus says whether an answer has a status.
func isStatus(err error, status int) bool {
	answer, is := errors.AsType[minio.ErrorResponse](err)
	return is && answer.StatusCode == status
}

// fault is an error as callers know it, and says what to do about it.
func (b *Bucket) fault(key string, err error) error {
	if err == nil {
		return nil
	}
	at := "s3://" + b.name + "/" + key
	answer, is := errors.AsType[minio.ErrorResponse](err)
	switch {
	case !is:
		return fmt.Errorf("%s: %w", at, err)
	case isMissing(err):
		return fmt.Errorf("%s: %w", at, fs.ErrNotExist)
	case answer.StatusCode == http.StatusPreconditionFailed:
		return fmt.Errorf("%s: %w", at, errReplaced)
	}
	said := fmt.Sprintf("%s: the server answers %d %.100q (%.200q)", at, answer.StatusCode, answer.Code, answer.Message)
	switch {
	case answer.Code == "NoSuchBucket":
		said += "; make the bucket, or correct its name"
	case answer.Region != "" && (answer.StatusCode < 400 || answer.Code == "AuthorizationHeaderMalformed" || answer.Code == "InvalidRegion"):
		said += fmt.Sprintf("; the bucket is in another region: set region=%.40s", answer.Region)
	case answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusUnauthorized:
		said += "; look at the credentials, which are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the shared credentials file or the machine's role, and at what they may do in this bucket"
	}
	return errors.New(said)
}
