#!/bin/sh
# Starts a real Redis on loopback for people who want to try Tollgate on one.
#
#   scripts/redis.sh start  server|cluster [DIR]   prints its URL
#   scripts/redis.sh status server|cluster [DIR]
#   scripts/redis.sh stop   server|cluster [DIR]   keeps the data in DIR
#
# DIR is .tollgate/redis-server or .tollgate/redis-cluster when left out. Started
# again on the same DIR, the data is there again. TOLLGATE_REDIS_PORT moves the
# port (6390; a cluster takes three from 6391 on). Needs redis-server and
# redis-cli, version 7.0 or newer. Tests start their own servers, not these.
set -eu

usage() {
	sed -n '2,/^set /{/^#/s/^# \{0,1\}//p;}' "$0" >&2
	exit 2
}

[ $# -ge 2 ] && [ $# -le 3 ] || usage
action=$1 kind=$2
case $kind in
server) first=${TOLLGATE_REDIS_PORT:-6390} nodes=1 ;;
cluster) first=${TOLLGATE_REDIS_PORT:-6391} nodes=3 ;;
*) usage ;;
esac
root=$(cd "$(dirname "$0")/.." && pwd)
dir=${3:-$root/.tollgate/redis-$kind}
case $dir in
/*) ;;
*) dir=$PWD/$dir ;; # the server works in its own directory
esac

for program in redis-server redis-cli; do
	command -v "$program" >/dev/null || {
		echo "$program is not installed (Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis)" >&2
		exit 1
	}
done

ports() {
	i=0
	while [ "$i" -lt "$nodes" ]; do
		echo $((first + i))
		i=$((i + 1))
	done
}

url() {
	hosts=$(ports | sed 's/^/127.0.0.1:/' | paste -s -d , -)
	echo "redis://$hosts"
}

# pid_of PORT: the process of this directory's server, if it runs. Only its own
# pid file is believed, and only while the server there says the same.
pid_of() {
	[ -f "$dir/$1/redis.pid" ] || return 1
	pid=$(cat "$dir/$1/redis.pid")
	redis-cli -p "$1" info server 2>/dev/null | grep -q "^process_id:$pid.\{0,1\}$" || return 1
	echo "$pid"
}

# until_ok SECONDS COMMAND...: repeats the command until it succeeds.
until_ok() {
	tries=$(($1 * 10))
	shift
	while ! "$@"; do
		tries=$((tries - 1))
		[ "$tries" -gt 0 ] || return 1
		sleep 0.1
	done
}

answers() { [ "$(redis-cli -p "$1" ping 2>/dev/null)" = PONG ]; }
gone() { ! kill -0 "$1" 2>/dev/null; }
whole() { redis-cli -p "$1" cluster info 2>/dev/null | grep -q '^cluster_state:ok'; }

start_node() {
	port=$1
	if pid_of "$port" >/dev/null; then
		return
	fi
	if answers "$port"; then
		echo "another Redis listens on port $port; set TOLLGATE_REDIS_PORT" >&2
		exit 1
	fi
	mkdir -p "$dir/$port"
	# The last options are what Tollgate asks of a Redis: an append-only file,
	# and no eviction, because every key is someone's money.
	set -- --port "$port" --bind 127.0.0.1 --dir "$dir/$port" --daemonize yes \
		--pidfile "$dir/$port/redis.pid" --logfile "$dir/$port/redis.log" \
		--save '' --appendonly yes --appendfsync everysec --aof-load-truncated no --maxmemory-policy noeviction
	# A kill can end a write in its middle: see the README on aof-load-truncated.
	manifest=$dir/$port/appendonlydir/appendonly.aof.manifest
	[ ! -f "$manifest" ] || echo y | redis-check-aof --fix "$manifest" >/dev/null
	[ "$kind" = server ] || set -- "$@" --cluster-enabled yes --cluster-config-file nodes.conf
	redis-server "$@" >/dev/null
	until_ok 30 answers "$port" || {
		echo "redis-server does not answer on port $port; see $dir/$port/redis.log" >&2
		exit 1
	}
}

start() {
	for p in $(ports); do
		start_node "$p"
	done
	if [ "$kind" = cluster ]; then
		# A directory that was used before already knows its cluster.
		if redis-cli -p "$first" cluster info | grep -q '^cluster_known_nodes:1.\{0,1\}$'; then
			# shellcheck disable=SC2046 # one word per node
			redis-cli --cluster create $(ports | sed 's/^/127.0.0.1:/') --cluster-yes >"$dir/create.log" || {
				cat "$dir/create.log" >&2
				exit 1
			}
		fi
		for p in $(ports); do
			until_ok 30 whole "$p" || {
				echo "the cluster is not whole after 30 s; see $dir" >&2
				exit 1
			}
		done
	fi
	url
}

stop() {
	for p in $(ports); do
		if pid=$(pid_of "$p"); then
			kill "$pid"
			until_ok 30 gone "$pid" || {
				echo "process $pid does not end" >&2
				exit 1
			}
			echo "stopped $p"
		fi
	done
}

status() {
	code=0
	for p in $(ports); do
		if pid=$(pid_of "$p"); then
			echo "127.0.0.1:$p runs (pid $pid)"
		else
			echo "127.0.0.1:$p does not run"
			code=1
		fi
	done
	[ "$code" -ne 0 ] || url
	return "$code"
}

case $action in
start | stop | status) "$action" ;;
*) usage ;;
esac
