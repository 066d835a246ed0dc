"""Pay an order: python3 pay.py ORDER, in the environment that 'tollgate dev' writes.
Debian has all of it: apt install python3-httpx python3-jwt python3-cryptography"""
import base64, hashlib, hmac, http.server, json, os, pathlib, queue, sys, threading, time, uuid
import httpx, jwt

order, client = sys.argv[1], os.environ["TOLLGATE_CLIENT_ID"]
api = httpx.Client(base_url=os.environ["TOLLGATE_URL"], timeout=15)
events = queue.Queue()

def call(method, path, key=None, **rest):
    """If there is no answer, start the program again: the same key pays once."""
    answer = api.request(method, path, headers={"Idempotency-Key": key} if key else {}, **rest)
    if answer.is_error:  # application/problem+json, with code, message and request_id
        sys.exit(f"{method} {path}: {answer.status_code} {answer.text}")
    return answer.json() if answer.content else None

def verified(headers, body):
    """Standard Webhooks: HMAC-SHA256 over id.timestamp.body, five minutes old at most."""
    id, sent = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    secret = base64.b64decode(endpoint["secret"].removeprefix("whsec_"))
    mac = hmac.digest(secret, f"{id}.{sent}.".encode() + body, hashlib.sha256)
    fresh = sent.isdecimal() and abs(time.time() - int(sent)) <= 300
    return fresh and any(hmac.compare_digest(b"v1," + base64.b64encode(mac), s)
                         for s in headers.get("webhook-signature", "").encode().split())

class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), 1 << 20))
        good = verified(self.headers, body)
        self.send_response(204 if good else 400)  # answer first, then do the work
        self.end_headers()
        if good:
            events.put(json.loads(body))

receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
jwk = json.loads(pathlib.Path(os.environ["TOLLGATE_CLIENT_JWK"]).read_text())
claims = {"iss": client, "sub": client, "aud": os.environ["TOLLGATE_ISSUER"],
          "exp": int(time.time()) + 60, "jti": str(uuid.uuid4())}
assertion = jwt.encode(claims, jwt.PyJWK(jwk).key, jwk["alg"], headers={"kid": jwk["kid"]})
token = call("POST", "/oauth2/token", data={
    "grant_type": "client_credentials", "client_assertion": assertion,
    "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"})
api.headers["Authorization"] = "Bearer " + token["access_token"]  # for ten minutes
endpoint = call("POST", "/v1/webhooks", json={
    "url": f"http://127.0.0.1:{receiver.server_port}/", "event_types": ["payment.captured"]})
threading.Thread(target=receiver.serve_forever, daemon=True).start()

kept = pathlib.Path(order + ".key")
if not kept.exists():  # before anything is sent
    kept.write_text(str(uuid.uuid4()))
payment = call("POST", "/v1/payments", kept.read_text(), json={
    "amount": "12.00", "currency": "EUR", "payee": "shop.example", "reference": order})
call("POST", f"/v1/payments/{payment['id']}/captures", payment["id"] + "-capture")
for line in call("GET", "/v1/tickets/" + payment["ticket_id"])["lines"]:
    print(line["label"], line["amount"], line["rule"])
while (event := events.get(timeout=60))["data"]["payment_id"] != payment["id"]:
    pass  # of somebody else
call("DELETE", "/v1/webhooks/" + endpoint["id"])
print("verified", event["id"], event["data"]["payment_id"], event["data"]["status"])
