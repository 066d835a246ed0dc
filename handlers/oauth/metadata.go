package oauth

import (
	"strings"

	"github.com/go-json-experiment/json"

	"tollgate/handlers/auth"
)

// Metadata is what a client needs to find everything else (RFC 8414 §2), as JSON.
func Metadata(issuer string) ([]byte, error) {
	base := strings.TrimSuffix(issuer, "/")
	methods, algorithms := []string{"private_key_jwt"}, auth.Algorithms()
	return json.Marshal(struct {
		Issuer                  string      `json:"issuer"`
		TokenEndpoint           string      `json:"token_endpoint"`
		RevocationEndpoint      string      `json:"revocation_endpoint"`
		IntrospectionEndpoint   string      `json:"introspection_endpoint"`
		JWKS                    string      `json:"jwks_uri"`
		Scopes                  auth.Scopes `json:"scopes_supported"`
		ResponseTypes           []string    `json:"response_types_supported"`
		GrantTypes              []string    `json:"grant_types_supported"`
		AuthMethods             []string    `json:"token_endpoint_auth_methods_supported"`
		AuthAlgorithms          []string    `json:"token_endpoint_auth_signing_alg_values_supported"`
		RevocationMethods       []string    `json:"revocation_endpoint_auth_methods_supported"`
		RevocationAlgorithms    []string    `json:"revocation_endpoint_auth_signing_alg_values_supported"`
		IntrospectionMethods    []string    `json:"introspection_endpoint_auth_methods_supported"`
		IntrospectionAlgorithms []string    `json:"introspection_endpoint_auth_signing_alg_values_supported"`
		ProofAlgorithms         []string    `json:"dpop_signing_alg_values_supported"`
		Documentation           string      `json:"service_documentation"`
	}{
		Issuer: issuer, JWKS: base + "/.well-known/jwks.json", Documentation: base + "/openapi.json",
		TokenEndpoint: base + "/oauth2/token", RevocationEndpoint: base + "/oauth2/revoke", IntrospectionEndpoint: base + "/oauth2/introspect",
		Scopes: auth.AllScopes(), ResponseTypes: []string{}, GrantTypes: []string{clientCredentials},
		AuthMethods: methods, RevocationMethods: methods, IntrospectionMethods: methods,
		AuthAlgorithms: algorithms, RevocationAlgorithms: algorithms, IntrospectionAlgorithms: algorithms, ProofAlgorithms: algorithms,
	})
}
