#!/usr/bin/env bash
# Debian: two packages install the Perl module Data::UUID, and no result of one
# equals that of the other.
#
# Guess: libdata-uuid-perl 1.226 and the module of the same name in
# libossp-uuid-perl 1.6.2 agree on the bytes of a UUID and on the UUID of a name.
# Seen: the first keeps its binary form as a C structure: on x86-64 the first
# three groups are byte-swapped, as in a GUID of Windows. The second keeps the
# order of the text. The UUID of a name (version 3) differs too: the first
# follows the RFC, the second does not. `create_str` makes version 1 in the
# first and version 4 in the second.
# Why it matters: binary columns that were filled by one package are other
# UUIDs to the other; which one runs depends on what else was installed, since
# the packages replace each other.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
download() { apt-get download -qq -o APT::Sandbox::User=root "$@"; }
download libdata-uuid-perl=1.226-3
download libossp-uuid-perl=1.6.2-1.5+b11 libossp-uuid16=1.6.2-1.5+b11
dpkg -x libdata-uuid-perl_*.deb data
dpkg -x libossp-uuid-perl_*.deb ossp
dpkg -x libossp-uuid16_*.deb ossp

cat >run.pl <<'END'
use Data::UUID;
my $maker = Data::UUID->new;
my $text = '6bd19fe7-7b3d-45a0-bb07-41e46df9242d';
print 'bytes of ', $text, ' ', unpack('H*', $maker->from_string($text)), "\n";
my $named = $maker->create_from_name(NameSpace_DNS, 'www.example.org');
print 'version 3 of www.example.org ', lc $maker->to_string($named), "\n";
print 'create_str version ', substr($maker->create_str, 14, 1), "\n";
END
for package in data ossp; do
  echo "$package"
  libraries=$dir/$package/usr/lib/x86_64-linux-gnu
  modules=$(echo "$libraries"/perl5/5.*)
  LD_LIBRARY_PATH=$libraries perl -I"$modules" run.pl
done >seen.txt
python3 -c "
import uuid
print('RFC', uuid.uuid3(uuid.NAMESPACE_DNS, 'www.example.org'))" >>seen.txt
diff -u - seen.txt <<'END'
data
bytes of 6bd19fe7-7b3d-45a0-bb07-41e46df9242d e79fd16b3d7ba045bb0741e46df9242d
version 3 of www.example.org 0012416f-9eec-3ed4-a8b0-3bceecde1cd9
create_str version 1
ossp
bytes of 6bd19fe7-7b3d-45a0-bb07-41e46df9242d 6bd19fe77b3d45a0bb0741e46df9242d
version 3 of www.example.org 6c53da0f-9e40-3856-bf40-483e2ea71ec5
create_str version 4
RFC 0012416f-9eec-3ed4-a8b0-3bceecde1cd9
END
