#!/bin/sh
# Installs the packages of packages.txt whose first word is one of the arguments and which are
# missing. Says what it will install before it does; does nothing where nothing is missing.
# SPDX-License-Identifier: Apache-2.0
set -eu
list="$(dirname "$0")/../packages.txt"
missing=""
for when in "$@"; do
  for package in $(awk -v when="$when" '$1 == when { print $2 }' "$list"); do
    state="$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)"
    [ "$state" = installed ] || missing="$missing $package"
  done
done
if [ -z "$missing" ]; then
  echo "packages: all that $* needs are installed"
  exit 0
fi
if [ "$(id -u)" = 0 ]; then
  as_root="env"
elif command -v sudo >/dev/null; then
  as_root="sudo env"
else
  echo "packages: installing needs root or sudo, and this user has neither; missing:$missing" >&2
  exit 1
fi
echo "packages: will install$missing (and what they depend on) with apt-get"
$as_root DEBIAN_FRONTEND=noninteractive apt-get update -qq
# shellcheck disable=SC2086 # one word a package
$as_root DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
