#!/bin/sh
# Makes .venv ready for use, or leaves it alone where nothing it was made from has changed. Called by `make setup`.
#
#   PYTHON  interpreter to make .venv with (default: the first suitable of python3, python3.13, python3.12, python3.11)
#   TORCH   pip's words for another build of torch, as in TORCH="torch==2.14.1 --index-url ADDRESS" (default: the pinned one);
#           .venv remembers it
#
# .venv/.stamp says what a finished .venv was made from; .venv/.unfinished is there while it is being changed.
set -euf
cd "$(dirname "$0")/.."
unset PYTHONPATH PYTHONHOME
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1

venv=.venv
python="$venv/bin/python"
stamp="$venv/.stamp"
unfinished="$venv/.unfinished"

stop() {
    printf 'make setup: %s\n' "$*" >&2
    exit 1
}

# "3.11 venv", "3.11" (without the venv module), or nothing where $1 is no Python at all
probe() {
    "$1" -c '
import sys
words = ["%d.%d" % sys.version_info[:2]]
try:
    import ensurepip, venv
    words.append("venv")
except ImportError:
    pass
print(" ".join(words))' 2>/dev/null || true
}

# Sets $chosen to an interpreter that can make the environment, or says what is missing.
choose_python() {
    seen="" without_venv=""
    if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3 python3.13 python3.12 python3.11; fi
    for candidate in "$@"; do
        found=$(probe "$candidate")
        case "$found" in
            "3.11 venv" | "3.12 venv" | "3.13 venv") chosen="$candidate" && return ;;
            3.11 | 3.12 | 3.13) without_venv="${without_venv:-$candidate (Python $found)}" ;;
            "") ;;
            *) seen="$seen; $candidate is Python ${found%% *}" ;;
        esac
    done
    if [ -n "$without_venv" ]; then
        stop "$without_venv has no venv module, which the set-up needs. On Debian or Ubuntu:" \
            "apt install python3-venv. Or name another Python: make setup PYTHON=/path/to/python3"
    fi
    stop "Lengthwise needs Python 3.11, 3.12 or 3.13${seen:-; found no Python as: $*}." \
        "Install one, or name it: make setup PYTHON=/path/to/python3.12"
}

# A name given by the user wins over the Python that .venv has; without one, any suitable .venv is kept.
venv_is_usable() {
    [ -e "$python" ] && [ ! -e "$unfinished" ] || return 1
    has=$(probe "$python")
    case "$has" in "3.11 venv" | "3.12 venv" | "3.13 venv") ;; *) return 1 ;; esac
    [ -z "${PYTHON:-}" ] || [ "$(probe "$PYTHON")" = "$has" ]
}

fingerprint() {
    printf 'torch: %s\nfolder: %s\n' "$TORCH" "$PWD"
    cksum pyproject.toml constraints.txt
}

TORCH="${TORCH:-$(sed -n 's/^torch: //p' "$stamp" "$unfinished" 2>/dev/null | head -n 1)}"
usable=no
if venv_is_usable; then usable=yes; fi
if [ "$usable" = yes ] && [ "$(cat "$stamp" 2>/dev/null)" = "$(fingerprint)" ]; then exit 0; fi

if [ "$usable" = no ]; then choose_python; fi
trap 'exit 130' INT TERM
trap '[ $? -eq 0 ] || printf "make setup: not finished (see above); the same command starts it again\n" >&2' EXIT
if [ "$usable" = no ]; then
    printf 'Making .venv with %s; the packages take a few minutes.\n' "$chosen"
    rm -rf "$venv"
    mkdir "$venv"
    fingerprint >"$unfinished"
    "$chosen" -m venv "$venv"
else
    printf 'Bringing .venv up to date.\n'
    fingerprint >"$unfinished"
fi
rm -f "$stamp"

quiet=--quiet
if [ -t 1 ]; then quiet=--progress-bar=on; fi
pins=constraints.txt
if [ -n "$TORCH" ]; then
    pins="$venv/constraints.txt"
    grep -v '^torch==' constraints.txt >"$pins"
    # shellcheck disable=SC2086 # several words for pip
    "$python" -m pip install $quiet $TORCH
fi
"$python" -m pip install $quiet -c "$pins" -e ".[dev]"

fingerprint >"$stamp"
rm "$unfinished"
printf 'Ready: .venv has %s.\n' "$("$python" -c 'import platform; print("Python", platform.python_version())')"
