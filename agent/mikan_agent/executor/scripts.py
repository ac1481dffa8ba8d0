"""The shell scripts of ``exec_only``. POSIX sh; each gets its values as arguments, so nothing is ever quoted.

Every script answers ``ok`` or ``error <code>``, one line or more of ASCII, and ``end <length of those>``.
"""

from collections.abc import Sequence

_PRELUDE = r"""
reply() { printf 'ok\n%s\nend %s\n' "$1" "${#1}"; exit 0; }
fail() { printf 'error %s\n%s\nend %s\n' "$1" "$2" "${#2}"; exit 0; }
regular() {
  parent=$(dirname -- "$1")
  [ -e "$1" ] || [ -x "$parent" ] || [ ! -e "$parent" ] || fail not_permitted 'permission denied'
  [ -e "$1" ] || fail not_found 'no such file or directory'
  [ ! -d "$1" ] || fail is_directory 'it is a directory'
  [ -f "$1" ] || fail not_regular 'it is not a regular file'
}
"""

PREPARE = r"""
dir=$(mktemp -d "${TMPDIR:-/tmp}/mikan.XXXXXX") || fail no_space 'no temporary directory'
reply "$dir"
"""

RUN = r"""
run=$1 dir=$2 cwd=$3 kind=$4; shift 4
[ -d "$cwd" ] || fail not_found 'working directory: no such directory'
cd "$cwd" 2>/dev/null || fail not_permitted 'working directory: permission denied'
variables=$1; shift
count=0
for value do
  [ "$count" -lt "$variables" ] || break
  count=$((count + 1))
  export "$value"
done
shift "$variables"
if [ "$kind" = command ]; then
  shell=$(command -v bash) || shell=/bin/sh
  set -- "$shell" -c "$1"
else
  command -v -- "$1" >/dev/null || fail not_found 'no such program in PATH'
fi
[ -e "$dir/in" ] || : >"$dir/in"
MIKAN_RUN_ID=$run "$@" <"$dir/in" >"$dir/out" 2>"$dir/err"
code=$?
reply "$code $(($(wc -c <"$dir/out"))) $(($(wc -c <"$dir/err")))"
"""

KILL = r"""
living() {
  for file in /proc/[0-9]*/environ; do
    # Not grep alone: busybox's sees a file with NUL bytes up to the first of them.
    { tr '\0' '\n' <"$file" | grep -qxF -- "MIKAN_RUN_ID=$run"; } 2>/dev/null && echo "$file"
  done
}
send() { for file in $(living); do pid=${file#/proc/}; kill -s "$1" "${pid%/environ}" 2>/dev/null; done; }
pause() { sleep 0.05 2>/dev/null || sleep 1; }
run=$1 left=$2
send TERM
while [ "$left" -gt 0 ] && [ -n "$(living)" ]; do left=$((left - 1)); pause; done
left=100
while [ "$left" -gt 0 ] && [ -n "$(living)" ]; do left=$((left - 1)); send KILL; pause; done
reply "$(living | wc -l)"
"""

READ = r"""
regular "$1"
[ -r "$1" ] || fail not_permitted 'permission denied'
data=$(tail -c "+$(($2 + 1))" -- "$1" | head -c "$3" | base64) || fail io 'read failed'
reply "$data"
"""

STAGE = r"""
target=$1
case $target in */) fail is_directory 'the path names a directory' ;; esac
if [ -L "$target" ]; then
  target=$(readlink -f -- "$target" && printf x) || fail invalid 'too many links'
  target=${target%?x}
fi
[ ! -e "$target" ] || regular "$target"
directory=$(dirname -- "$target" && printf x); directory=${directory%?x}
if [ "$2" = yes ] && [ ! -d "$directory" ]; then
  mkdir -p -- "$directory" 2>/dev/null || fail not_permitted 'cannot make the directory'
fi
[ -d "$directory" ] || fail not_found 'no such directory'
mode=644
[ ! -e "$target" ] || mode=$(stat -c %a -- "$target")
stage=$directory/.mikan-$3.part
(umask 077 && : >"$stage") 2>/dev/null || fail not_permitted 'cannot write there'
encode() { printf %s "$1" | base64 | tr -d '\n'; }
reply "$mode $(encode "$stage") $(encode "$target")"
"""

APPEND = r"""
printf %s "$2" | base64 -d >>"$1" 2>/dev/null || fail no_space 'cannot write'
reply "$(($(wc -c <"$1")))"
"""

COMMIT = r"""
chmod "$3" "$1" && mv -f -- "$1" "$2" || fail io 'cannot put the file in place'
reply "$3"
"""

REMOVE = r"""
rm -rf -- "$1" || fail io 'cannot remove'
reply done
"""

STAT = r"""
[ -e "$2" ] || [ -L "$2" ] || fail not_found 'no such file or directory'
follow=-L; [ "$1" = yes ] || follow=-c%F
type=$(stat $follow -c %F -- "$2") || fail not_found 'no such file or directory'
case $type in regular*) type=file ;; directory) ;; symbolic*) type=link ;; *) type=other ;; esac
reply "$type $(stat $follow -c '%s %a %Y' -- "$2")"
"""


def invocation(script: str, *arguments: str) -> Sequence[str]:
    """The program that runs a script."""
    return ("/bin/sh", "-c", _PRELUDE + script, "mikan", *arguments)
