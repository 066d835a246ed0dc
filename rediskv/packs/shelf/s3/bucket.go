// Package s3 is a shelf in a bucket of S3, or of any server that speaks its protocol: each
// file is an object, put by one request and read by ranges. It is a room of its own so that
// programs which read no bucket do not hold a client of S3.
package s3

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"tollgate/rediskv/packs/shelf"
)

// Options are what a bucket is opened with beside its URL.
type Options struct {
	// Region is where the bucket is if the URL does not say so; empty: us-east-1.
	Region string
	// Credentials sign the requests. nil: those that other tools use as well, from the
	// environment (AWS_ACCESS_KEY_ID, …), then the shared credentials file, then the role of
	// the machine, the container or the service account.
	Credentials *Credentials
	// Patience is how long an attempt may take, but for its body; 0: 30 s.
	Patience time.Duration
}

// Credentials are a key of S3.
type Credentials struct {
	AccessKey, SecretKey string
	SessionToken         string // empty: the key is for good
}

// Bucket is a shelf in a bucket.
type Bucket struct {
	client   *minio.Core
	name     string
	prefix   string // of all keys: empty, or with a slash at its end
	patience time.Duration
	// plain says that the server has refused what not every server knows, and took the same
	// without.
	plain atomic.Bool
}

var _ shelf.Shelf = (*Bucket)(nil)

const (
	amazon        = "https://s3.amazonaws.com" // the client makes it that of the region
	defaultRegion = "us-east-1"
	usage         = "use s3://bucket/prefix?region=…&endpoint=https://host:port"
)

// Open returns the shelf at a URL: s3://bucket/prefix?region=…&endpoint=https://host:port.
// The prefix and both parameters may be left out: then it is all of a bucket of Amazon's. It
// asks nobody: what is wrong with the bucket is said by the first request. An endpoint is
// https, unless it is on this machine.
func Open(at string, o Options) (*Bucket, error) {
	b, err := open(at, o)
	if err != nil {
		return nil, fmt.Errorf("open shelf: %w", err)
	}
	return b, nil
}

func open(at string, o Options) (*Bucket, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", errors.Unwrap(err), usage) // without the URL, which can have a secret
	}
	switch {
	case u.Scheme != "s3":
		return nil, fmt.Errorf("the scheme is %q; %s", u.Scheme, usage)
	case u.User != nil:
		return nil, errors.New("the URL has a user name or a password; leave them out, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	case u.Fragment != "" || u.Opaque != "":
		return nil, fmt.Errorf("the URL has a fragment, or no slashes behind s3:; %s", usage)
	}
	if err := s3utils.CheckValidBucketNameStrict(u.Host); err != nil {
		return nil, fmt.Errorf("%q is no name of a bucket (%w); %s", u.Host, err, usage)
	}
	prefix, err := prefixOf(u.Path)
	if err != nil {
		return nil, err
	}
	region, endpoint, err := parametersOf(u, o)
	if err != nil {
		return nil, err
	}
	if o.Patience == 0 {
		o.Patience = patience
	}
	client, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds: o.Credentials.provider(), Secure: endpoint.Scheme == "https", Transport: transport(o.Patience), Region: region,
		MaxRetries: 1, // see try
	})
	if err != nil {
		return nil, fmt.Errorf("the endpoint %s: %w; %s", endpoint.Redacted(), err, usage)
	}
	return &Bucket{client: client, name: u.Host, prefix: prefix, patience: o.Patience}, nil
}

// prefixOf is what all keys begin with. A key is a text and no path: what a file system would
// make shorter is refused.
func prefixOf(path string) (string, error) {
	path = strings.Trim(path, "/")
	if path == "" {
		return "", nil
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." {
			return "", fmt.Errorf("the prefix %q has an empty part, or one of dots alone; use names with single slashes between", path)
		}
	}
	if other := strings.Trim(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-"); other != "" || len(path) > longestPrefix {
		return "", fmt.Errorf("the prefix %.200q is too long, or has other characters than letters, digits, dots, dashes, underscores and slashes", path)
	}
	return path + "/", nil
}

// longestPrefix leaves room for the names of an archive in a key, which has at most 1,024 bytes.
const longestPrefix = 512

// parametersOf are the parameters of a shelf's URL.
func parametersOf(u *url.URL, o Options) (region string, endpoint *url.URL, err error) {
	given, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", nil, fmt.Errorf("the parameters cannot be read; %s", usage)
	}
	for name, values := range given {
		if name != "region" && name != "endpoint" {
			return "", nil, fmt.Errorf("%.40q is no parameter; %s, and set credentials in the environment", name, usage)
		}
		if len(values) > 1 || values[0] == "" {
			return "", nil, fmt.Errorf("%s is there twice, or is empty; %s", name, usage)
		}
	}
	region = given.Get("region")
	if region == "" {
		region = o.Region
	}
	if region == "" {
		region = defaultRegion
	}
	if strings.Trim(region, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
		return "", nil, fmt.Errorf("%.40q is no region; use one such as eu-central-1", region)
	}
	address := given.Get("endpoint")
	if address == "" {
		address = amazon
	}
	endpoint, err = endpointAt(address)
	return region, endpoint, err
}

// endpointAt is the address of a server.
func endpointAt(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the endpoint is not scheme, host and port alone; use one such as https://s3.example.com")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return nil, fmt.Errorf("the endpoint %s is not encrypted; use https, or a server on this machine", u)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the scheme of the endpoint is %q; use https", u.Scheme)
	}
	return u, nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (c *Credentials) provider() *credentials.Credentials {
	if c != nil {
		return credentials.NewStaticV4(c.AccessKey, c.SecretKey, c.SessionToken)
	}
	return credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}})
}

// transport bounds how long a server can take that does not answer. What it may take to
// send a body is bounded by each request.
func transport(patience time.Duration) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
		ResponseHeaderTimeout: patience,
		IdleConnTimeout:       time.Minute,
		MaxIdleConnsPerHost:   64,
		DisableCompression:    true, // a frame is compressed
	}
}

// key is that of a file's object.
func (b *Bucket) key(name string) (string, error) {
	if err := shelf.CheckName(name); err != nil {
		return "", err
	}
	return b.prefix + name, nil
}
