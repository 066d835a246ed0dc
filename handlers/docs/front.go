package docs

import (
	"bytes"
	"errors"
	"html"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// About is what the front page says of the process that answers.
type About struct {
	Version string
	// Status says how the process is, from what it knows already: it is asked for
	// each request, and must not ask Redis.
	Status  func() Status
	Console string // address of the console; empty where there is none
}

// Status is how a process is.
type Status string

// What a process can be.
const (
	Ready       Status = "ready"
	QuotesOnly  Status = "quotes_only" // Redis is away
	Unavailable Status = "unavailable" // it loads its rules, or is about to stop
)

// sentences say it to people.
var sentences = map[Status]string{
	Ready:       "Ready. This instance takes payments.",
	QuotesOnly:  "Quotes only. Redis is away: this instance prices payments, and takes none until Redis is back.",
	Unavailable: "Not ready. This instance loads its rules, or is about to stop.",
}

// front is the page at /: the same to people and to programs.
type front struct {
	about  About
	before []byte // the page up to what is filled in
	after  []byte
}

// filledIn is where the generator has left room.
const filledIn = "<!-- how it is -->"

func newFront(about About, files map[string]*file) (front, error) {
	f := front{about: about}
	if files[landing] == nil || files[missing] == nil {
		return f, errors.New("docs: the pages are not rendered: run `make docs`")
	}
	page, err := files[landing].plain()
	if err != nil {
		return f, err
	}
	var found bool
	if f.before, f.after, found = bytes.Cut(page, []byte(filledIn)); !found {
		return f, errors.New("docs: the front page has no room for the status")
	}
	return f, nil
}

func (f *front) serve(w http.ResponseWriter, req *http.Request) {
	header := w.Header()
	header.Set("Vary", "Accept")
	header.Set("Cache-Control", "no-store")
	status := f.about.Status()
	if prefersHTML(req) {
		write(w, types[""], http.StatusOK, bytes.Join([][]byte{f.before, f.fragment(status), f.after}, nil))
		return
	}
	body, err := json.Marshal(struct {
		Name    string `json:"name"`
		Version string `json:"version"`
		Status  Status `json:"status"`
		Links   links  `json:"links"`
	}{"Tollgate", f.about.Version, status, links{Below, Below + "/api", "/openapi.json", "/healthz", "/readyz", f.about.Console}})
	if err != nil { // a version that is no text
		panic(err)
	}
	write(w, types[".json"], http.StatusOK, append(body, '\n'))
}

// links are the addresses to go on with, from that of the service.
type links struct {
	Docs    string `json:"docs"`
	API     string `json:"api"`
	OpenAPI string `json:"openapi"`
	Health  string `json:"health"`
	Ready   string `json:"ready"`
	Console string `json:"console,omitzero"`
}

// fragment is what differs from process to process, as HTML.
func (f *front) fragment(status Status) []byte {
	var b bytes.Buffer
	b.WriteString(`<p class="status" data-status="` + html.EscapeString(string(status)) + `">` + html.EscapeString(sentences[status]) + "</p>\n")
	b.WriteString(`<p class="version">Version ` + html.EscapeString(f.about.Version) + "</p>\n")
	if f.about.Console != "" {
		b.WriteString(`<p><a class="button" href="` + html.EscapeString(f.about.Console) + `">Open the console</a></p>` + "\n")
	}
	return b.Bytes()
}

// prefersHTML is whether a request names text/html, and gives JSON no more weight. A
// browser does; curl takes anything, and gets JSON.
func prefersHTML(req *http.Request) bool {
	htm, jsn := 0.0, 0.0
	for media, weight := range weights(req.Header["Accept"]) {
		switch media {
		case "text/html", "application/xhtml+xml":
			htm = max(htm, weight)
		case "application/json":
			jsn = max(jsn, weight)
		}
	}
	return htm > 0 && htm >= jsn
}

// takesGzip is whether a request takes what is packed (RFC 9110 §12.5.3).
func takesGzip(req *http.Request) bool {
	codings := weights(req.Header["Accept-Encoding"])
	if weight, named := codings["gzip"]; named {
		return weight > 0
	}
	return codings["*"] > 0
}

// weights are the elements of a header that says what is preferred. One that cannot be
// parsed counts as not there.
func weights(headers []string) map[string]float64 {
	all := map[string]float64{}
	for element := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		name, params, err := mime.ParseMediaType(element)
		if err != nil {
			continue
		}
		all[name] = 1
		if q, ok := params["q"]; ok {
			if all[name], err = strconv.ParseFloat(q, 64); err != nil {
				delete(all, name)
			}
		}
	}
	return all
}
