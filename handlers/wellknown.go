package handlers

import (
	"strings"

	"github.com/go-json-experiment/json"

	"tollgate/handlers/auth"
)

// issuerMetadata is what a client needs to find everything else (RFC 8414 §2).
func issuerMetadata(issuer string) (document, error) {
	base := strings.TrimSuffix(issuer, "/")
	body, err := json.Marshal(struct {
		Issuer         string      `json:"issuer"`
		TokenEndpoint  string      `json:"token_endpoint"`
		JWKS           string      `json:"jwks_uri"`
		Scopes         auth.Scopes `json:"scopes_supported"`
		ResponseTypes  []string    `json:"response_types_supported"`
		GrantTypes     []string    `json:"grant_types_supported"`
		AuthMethods    []string    `json:"token_endpoint_auth_methods_supported"`
		AuthAlgorithms []string    `json:"token_endpoint_auth_signing_alg_values_supported"`
		Documentation  string      `json:"service_documentation"`
	}{
		Issuer: issuer, TokenEndpoint: base + "/oauth2/token", JWKS: base + "/.well-known/jwks.json",
		Scopes: auth.AllScopes(), ResponseTypes: []string{}, GrantTypes: []string{clientCredentials},
		AuthMethods: []string{"private_key_jwt"}, AuthAlgorithms: auth.Algorithms(), Documentation: base + "/openapi.json",
	})
	return newDocument(body), err
}

// readMetadata answers under the name by which the client knows the service
// (RFC 8414 §3.3).
func (s *Server) readMetadata(c *call) (*answer, error) {
	if aliased, ok := s.aliased[c.request.Host]; ok {
		return aliased.answer()
	}
	return s.metadata.answer()
}

// readKeys publishes the keys that verify access tokens (RFC 7517 §5).
func (s *Server) readKeys(*call) (*answer, error) { return newDocument(s.keys.JWKS()).answer() }
