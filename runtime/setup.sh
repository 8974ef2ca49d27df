#!/bin/sh
# Before a start: the Debian engines (cg3: what the Catalan pairs run and only recommend), where apt and root are at hand and they are missing; else one line how. Never fails the start.
packages="apertium cg3 apertium-eng-spa apertium-spa-cat apertium-fr-es apertium-es-pt espeak-ng"
missing=""
for package in $packages; do
  dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
if ! command -v apt-get >/dev/null 2>&1; then
  echo "Translation engines are Debian packages ($packages): not on this system. Speech works; for translation set DEEPL_UPSTREAM_URL, OPENAI_BASE_URL or MODELS_DIR." >&2
  exit 0
fi
if [ "$(id -u)" = 0 ]; then as=""; elif sudo -n true 2>/dev/null; then as="sudo -n"; else
  echo "For translation install the engines once: sudo apt-get install --no-install-recommends$missing" >&2
  exit 0
fi
echo "Installing the engines:$missing" >&2
{ $as apt-get update && $as env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; } >/tmp/troupe-setup.log 2>&1 ||
  echo "The engines could not be installed (see /tmp/troupe-setup.log). For translation: apt-get install --no-install-recommends$missing" >&2
exit 0
