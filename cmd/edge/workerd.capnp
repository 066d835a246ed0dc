# Tollgate on workerd. Settings come from the environment of the process; those of
# `tollgate serve` that an object has are called the same.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "tollgate", worker = .tollgate),
    (name = "internet", network = (allow = ["public", "private", "local"], tlsOptions = (trustBrowserCas = true))),
  ],
  sockets = [(name = "http", address = "127.0.0.1:8787", http = (), service = "tollgate")],
);

const tollgate :Workerd.Worker = (
  modules = [
    (name = "worker.js", esModule = embed "worker.js"),
    (name = "object.js", esModule = embed "object.js"),
    (name = "program.js", esModule = embed "program.js"),
    (name = "wasm_exec.js", esModule = embed "wasm_exec.js"),
    (name = "tollgate.wasm", wasm = embed "tollgate.wasm"),
  ],
  compatibilityDate = "2026-11-01",
  compatibilityFlags = ["enable_request_signal"], # a client that goes ends its request
  durableObjectNamespaces = [(className = "Tollgate", uniqueKey = "tollgate")],
  durableObjectStorage = (inMemory = void),
  bindings = [
    (name = "TOLLGATE_OBJECTS", durableObjectNamespace = "Tollgate"),
    (name = "TOLLGATE_REDIS_URL", fromEnvironment = "TOLLGATE_REDIS_URL"),
    (name = "TOLLGATE_ISSUER", fromEnvironment = "TOLLGATE_ISSUER"),
    (name = "TOLLGATE_SIGNING_KEY", fromEnvironment = "TOLLGATE_SIGNING_KEY"),
    (name = "TOLLGATE_SECRET_KEY", fromEnvironment = "TOLLGATE_SECRET_KEY"),
    (name = "TOLLGATE_SECRET_KEY_PREVIOUS", fromEnvironment = "TOLLGATE_SECRET_KEY_PREVIOUS"),
    (name = "TOLLGATE_ON_HISTORY_LOSS", fromEnvironment = "TOLLGATE_ON_HISTORY_LOSS"),
    (name = "TOLLGATE_RATE_LIMITS", fromEnvironment = "TOLLGATE_RATE_LIMITS"),
    (name = "TOLLGATE_LOG_LEVEL", fromEnvironment = "TOLLGATE_LOG_LEVEL"),
    (name = "TOLLGATE_EDGE_SHARDS", fromEnvironment = "TOLLGATE_EDGE_SHARDS"),
    (name = "TOLLGATE_EDGE_IDLE", fromEnvironment = "TOLLGATE_EDGE_IDLE"),
    (name = "TOLLGATE_PUBLISH_URL", fromEnvironment = "TOLLGATE_PUBLISH_URL"),
  ],
);
