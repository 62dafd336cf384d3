#!/usr/bin/env bash
# PostgreSQL servers for tests, on ports of 127.0.0.1. A server belongs to the process that it was started for: when that has
# gone, however it ended, the server stops and its directory is removed.
#
#   postgres.sh nextest                     a server for a whole run, as a setup script of nextest
#   postgres.sh run COMMAND...              a server for a command, whose exit status it returns
#   postgres.sh need                        finds PostgreSQL, or tries to install it
#
# The tests of a run find its server in HANDBACK_TEST_POSTGRES. It is fast, because a crash of the machine may break its data.
# A test may have a server of its own, which keeps what was committed, and can be stopped and started:
#
#   postgres.sh create                      starts one; prints its directory and its URL, a line each
#   postgres.sh start DIRECTORY             starts it again, on the same port
#   postgres.sh stop DIRECTORY MODE         stops it: `fast`, or `immediate` as in a crash
#   postgres.sh remove DIRECTORY            stops it and removes all of it
set -euo pipefail

OLDEST=15
# Ports that are neither the other tests' (see `lasting_address`) nor given to connections by Linux.
FIRST_PORT=30000 PORTS=2768
self=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
bin='' home='' url=''

die() {
  echo "$*" >&2
  exit 1
}

# Closes what the caller has open: nobody should wait until a process in the background closes it.
close_files() {
  local file
  for file in /dev/fd/*; do
    file=${file##*/}
    # The shell has the script as 255, and passes it on to nobody.
    if ((file > 2 && file != 255)); then eval "exec $file>&-"; fi
  done
}

# Runs a program as the user that servers run as: PostgreSQL refuses to be root.
as_server() (
  close_files
  # The directory of the caller may be closed to that user.
  cd /
  export LC_ALL=C
  if ((EUID == 0)); then exec runuser -u postgres -- "$@"; else exec "$@"; fi
)

# Sets `bin` to the directory of PostgreSQL's programs, if they are new enough.
find_programs() {
  local in_path found version
  in_path=$(type -P initdb || true)
  while read -r found; do
    if [[ -x $found/initdb && -x $found/pg_ctl && -x $found/postgres ]]; then
      version=$("$found/postgres" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
      if ((version >= OLDEST)); then
        bin=$found
        return
      fi
    fi
  done < <(
    echo "${in_path%/*}"
    pg_config --bindir 2>/dev/null || true
    printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV
  )
  return 1
}

need() {
  if find_programs; then return; fi
  if ((EUID == 0)) && type -P apt-get >/dev/null; then
    echo "PostgreSQL is missing, trying to install it" >&2
    install_programs >&2 || true
    if find_programs; then return; fi
  fi
  die "PostgreSQL is missing: install version $OLDEST or newer, with initdb, pg_ctl and postgres in a directory of PATH"
}

# Debian's package would also start a server for the machine. Nobody asked for that one.
install_programs() {
  local settings=/etc/postgresql-common/createcluster.conf status=0
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq postgresql-common || return
  sed -i.before 's/^#*create_main_cluster .*/create_main_cluster = false/' "$settings"
  apt-get install -y -qq --no-install-recommends postgresql || status=$?
  mv "$settings.before" "$settings"
  return "$status"
}

# Whether a process runs. One that has ended does not, even if its parent has not asked how.
is_running() {
  local stat
  kill -0 "$1" 2>/dev/null || return 1
  if { read -r stat <"/proc/$1/stat"; } 2>/dev/null; then
    [[ ${stat##*) } != Z* ]]
  else
    [[ $(ps -o stat= -p "$1") != Z* ]]
  fi
}

# Starts a server for a process: `create KIND OWNER`. A `lasting` one survives a crash, a `quick` one does not. Sets `home`
# and `url`.
create() {
  local port base=${TMPDIR:-/tmp}
  need
  ((EUID != 0)) || id postgres >/dev/null 2>&1 || die "PostgreSQL does not run as root: add a user named postgres"
  # As root, it may be a directory that only root can enter.
  as_server test -x "$base" || base=/tmp
  for _ in {1..20}; do
    home=$(mktemp -d "$base/handback-postgres.XXXXXX")
    if ((EUID == 0)); then chown postgres "$home"; fi
    echo $$ >"$home/busy"
    # In a group of its own: a signal to the group of the owner does not reach it.
    (set -m; "$self" watch "$home" "$2" </dev/null >/dev/null 2>&1 &)
    port=$((FIRST_PORT + RANDOM % PORTS))
    url=postgres://postgres@127.0.0.1:$port
    as_server "$bin/initdb" --pgdata="$home/data" --username=postgres --auth=trust --encoding=UTF8 --locale=C --no-sync \
      </dev/null >"$home/output" 2>&1 || fail "$home/output"
    settings "$1" >>"$home/data/postgresql.conf"
    if start; then
      rm "$home/busy"
      return
    fi
    grep -q "Address already in use" "$home/log" || fail "$home/log"
    remove
  done
  die "there is no free port for PostgreSQL"
}

settings() {
  echo "
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = '$home'
max_connections = 400
shared_buffers = 64MB
timezone = UTC
log_timezone = UTC"
  if [[ $1 == quick ]]; then
    echo "
fsync = off
full_page_writes = off"
  fi
}

# The server does not start: says what it said.
fail() {
  tail -n 20 "$1" >&2 || true
  remove
  die "PostgreSQL does not start"
}

start() {
  as_server "$bin/pg_ctl" --pgdata="$home/data" --log="$home/log" --wait start </dev/null >/dev/null 2>&1
}

stop() {
  as_server "$bin/pg_ctl" --pgdata="$home/data" --mode="$1" --wait stop </dev/null >/dev/null 2>&1
}

remove() {
  stop immediate || true
  rm -rf "$home"
}

# Waits until the owner of a directory has gone, or the directory itself.
watch() {
  cd /
  trap '' HUP INT
  trap 'remove; exit' TERM
  close_files
  while [[ -d $home ]] && is_running "$1"; do sleep 0.3; done
  # What the owner began may still be under way: the server must not start after it was stopped. It takes seconds.
  for _ in {1..200}; do
    if [[ ! -e $home/busy ]] || ! is_running "$(cat "$home/busy")"; then break; fi
    sleep 0.1
  done
  remove
}

main() {
  local command=${1-} status=0
  case $command in
    start | stop | remove | watch)
      home=${2-}
      [[ $home == */handback-postgres.?????? ]] || die "it is no directory of a server for tests: $home"
      find_programs || true
      ;;
  esac
  case $command in
    nextest)
      create quick "$PPID"
      echo "HANDBACK_TEST_POSTGRES=$url" >>"$NEXTEST_ENV"
      ;;
    run)
      shift
      create quick $$
      HANDBACK_TEST_POSTGRES=$url "$@" || status=$?
      remove
      return "$status"
      ;;
    need) need ;;
    create)
      create lasting "$PPID"
      printf '%s\n' "$home" "$url"
      ;;
    start)
      echo $$ >"$home/busy"
      start || status=$?
      rm "$home/busy"
      if ((status)); then tail -n 20 "$home/log" >&2; fi
      return "$status"
      ;;
    stop) stop "${3-}" || die "PostgreSQL does not stop: ${3-}" ;;
    remove) remove ;;
    watch) watch "${3-}" ;;
    *) die "usage: see the beginning of $self" ;;
  esac
}

# Nothing more is read: the file may change while this runs.
main "$@"; exit
