package tollgate

// AuditEntry is one line of the audit record (spec §5): who did what to which
// object, and what came of it. It never holds a token, an assertion or a body.
type AuditEntry struct {
	ID      string       `json:"id"`
	Time    Instant      `json:"time"`
	Type    string       `json:"type"`    // such as payment.create or account.read
	Outcome string       `json:"outcome"` // succeeded, refused or denied
	Seq     int64        `json:"seq"`     // 1, 2, 3 … per organization; given by the script
	Reason  string       `json:"reason,omitempty"`
	Actor   Actor        `json:"actor"`
	Request AuditRequest `json:"request"`
	Target  AuditTarget  `json:"target"`
}

// Actor is who acts: a client under a grant. KeyID is the key that signed what
// it showed: the client's own for an assertion, the service's for an access
// token. The service's own clock has none of these.
type Actor struct {
	ClientID string `json:"client_id"`
	GrantID  string `json:"grant_id"`
	KeyID    string `json:"kid"`
}

// AuditRequest is the request that an entry is about.
type AuditRequest struct {
	ID     string `json:"id"`
	Method string `json:"method"`
	Route  string `json:"route"` // the pattern, never the path
	Status int    `json:"status"`
}

// AuditTarget is the object that an entry is about.
type AuditTarget struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}
