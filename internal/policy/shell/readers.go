package shell

import "strings"

// models are the programs that are understood well enough to be called readers,
// and those whose operands matter, as newModel reads them. A program with "+"
// has subcommands, each with a line of its own. What has no line is never a
// reader.
var models = readModels(`
ls: -aAbBcCdfFgGhHiIklLmnNopqQrRsStTuUvxXZ1 -I: -w: -T: --all --almost-all --author --color? --directory --group-directories-first --human-readable --full-time --inode --size --recursive --reverse --sort= --time= --time-style= --format= --hide= --ignore= --classify? --file-type --si --hyperlink? --dereference --literal --quote-name --no-group --numeric-uid-gid stat
dir: -aAhlR1 stat
cat: -AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs --show-nonprinting read
tac: -b -r -s: --separator= read
rev: read
nl: -b: -d: -f: -h: -i: -l: -n: -p -s: -v: -w: --body-numbering= --number-format= --number-width= read
head: -c: -n: -qvz -0123456789 --bytes= --lines= --quiet --verbose read
tail: -c: -n: -fFqvzr -s: -0123456789 --pid= --bytes= --lines= --follow? --retry --quiet --verbose --sleep-interval= read
wc: -clmwL --bytes --chars --lines --words --max-line-length --files0-from=unseen read
cut: -b: -c: -d: -f: -nsz --bytes= --characters= --delimiter= --fields= --complement --only-delimited --output-delimiter= read
paste: -d: -sz --delimiters= --serial read
join: -a: -e: -i -1: -2: -j: -o: -t: -v: --header --check-order --nocheck-order read
comm: -123z --check-order --nocheck-order --output-delimiter= --total read
cmp: -bls -n: -i: --bytes= --print-bytes --silent --verbose --quiet read
diff: -abBdeEiNnpqrstTuwyZ -c -C: -U: -I: -x: -X:read -W: -F: -L: -0123456789 --unified? --context? --brief --recursive --new-file --ignore-all-space --ignore-space-change --ignore-blank-lines --ignore-case --side-by-side --color? --exclude= --label= --width= --suppress-common-lines --text --minimal --strip-trailing-cr read
sdiff: -bBilsWE -w: -o:write --output=write read
sort: -bdfghiMnrRuVcCmsz -k: -t: -S: -o:write -T:write --reverse --numeric-sort --unique --key= --field-separator= --ignore-case --human-numeric-sort --version-sort --general-numeric-sort --stable --check? --merge --zero-terminated --random-sort --sort= --parallel= --buffer-size= --output=write --temporary-directory=write --compress-program=run --files0-from=unseen --random-source=read read
uniq: -cdDiuz -f: -s: -w: --count --repeated --unique --ignore-case --all-repeated? --skip-fields= --skip-chars= --check-chars= --group? read write
shuf: -erz -i: -n: -o:write --echo --head-count= --input-range= --repeat --output=write --random-source=read read
tr: -cCdst --delete --squeeze-repeats --complement --truncate-set1 data
fold: -bs -w: --width= --spaces --bytes read
fmt: -cstu -w: -p: --width= read
pr: -adFfhJmntTvW -l: -o: -w: -h: -0123456789 read
expand: -i -t: read
unexpand: -a -t: read
column: -tcexLnJ -s: -o: -N: -R: -W: --table --separator= --output-separator= --json read
od: -abcdfhilosvx -A: -j: -N: -S? -t: -w? --address-radix= --format= --read-bytes= --skip-bytes= read
xxd: -abeEiupC -c: -g: -l: -o: -s: -n: -r! --len= read write
hexdump: -bcCdovxX -e: -f:read -n: -s: --canonical --length= --skip= read
hd: -n: -s: read
strings: -afwo -n: -t: -e: --all --bytes= --radix= --encoding= read
nm: -aABCDglnoprSsuvP --plugin=run --demangle? --dynamic --extern-only --defined-only --undefined-only --size-sort --numeric-sort --print-size read
readelf: -aAcdeghInrsSluVWw -x: -p: --all --headers --file-header --program-headers --section-headers --sections --segments --symbols --syms --dynamic --notes --relocs --wide --debug-dump? read
objdump: --plugin=run -aCdDfghprRsStTwxlz -M: -j: -b: -m: --disassemble --disassemble-all --headers --syms --dynamic-syms --reloc --source --demangle? --section= --private-headers --start-address= --stop-address= --no-show-raw-insn read
size: --plugin=run -ABdoxt --format= read
file: -bchikLnNprsz0 -e: -F: -P: -C! -m:change -f:change --brief --mime --mime-type --mime-encoding --compile! --magic-file=change --files-from=change read
stat: -fLt -c: -x -s -F --format= --printf= --file-system --dereference --terse link
du: -0abcDhHklLmPsSx -B: -d: -t: -X:read --all --apparent-size --bytes --block-size= --total --max-depth= --human-readable --summarize --one-file-system --exclude= --exclude-from=read --separate-dirs --threshold= --time? --files0-from=unseen stat
df: -aHhiklmPTv -B: -t: -x: --all --human-readable --inodes --local --output? --portability --print-type --total --type= --exclude-type= stat
ps: -AacdefFHjlLMNrTVwxyZ -C: -G: -g: -o: -O: -p: -q: -s: -t: -u: -U: -n: --forest --sort= --no-headers --headers --pid= --ppid= --user= --format= --cols= --width= data
pgrep: -acdflnovwxAi -g: -G: -P: -s: -t: -u: -U: -d: -F:read --full --list-name --list-full --newest --oldest --exact --count data
pidof: -s -x -o: data
pstree: -aAcghlnpsStTuUZ data
free: -bkmghtlvw -s: -c: --human --total --wide --mega --giga --si
vmstat: -adfimnstwS data
uptime: -ps --pretty --since
nproc: --all --ignore=
arch:
lscpu: -aBbcCeJpsxy --json --extended? --parse? --all --online
lsblk: -abdDfiJlmMnNOpPrsStTz -o: -e: -I: -x: --output= --json --fs --all --list --paths --noheadings --bytes --raw stat
lsusb: -tv -s: -d:
lspci: -knvmqD -s: -d:
lsmod:
lsof: -abCFlnNoPRtUvVX -c: -d: -g: -i? -p: -s? -u: stat
findmnt: -abcDefiJklnoPrRtuvw -o: -t: -S: -T: -M: --output= --json --target= --types= --list --noheadings stat
whoami:
id: -agGnruzZ --user --group --groups --name --real data
groups: data
logname:
who: -abdHlmpqrstTuw
w: -fhisou data
users:
tty: -s
uname: -amnrsvpio --all --kernel-name --nodename --kernel-release --machine --processor --operating-system
hostname: -adfiIsy --all-ip-addresses --fqdn --long --short --ip-address --domain
date: -u -R -I? -d: -r:stat -s:change --utc --universal --date= --iso-8601? --rfc-3339= --rfc-email --reference=stat --set=change --debug -f:read -j -v: data
cal: -13jmswy -A: -B: data
locale: -akm data
getconf: -a data
tput: -T: data
pwd: -LP
basename: -az -s: --multiple --suffix= --zero data
dirname: -z --zero data
realpath: -eLmPqsz --relative-to= --relative-base= --canonicalize-existing --canonicalize-missing --no-symlinks --strip --quiet --zero link
readlink: -efmnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline --zero link
which: -as data
whereis: -bmsu data
type: -afptP data
help: -dms data
whatis: data
apropos: data
man: -akfwWK -P:run -H?run -C:change -l:read -M: -S: -s: --pager=run --html?run --config-file=change --where --path --apropos --whatis data
info: -o:write --output=write --subnodes data
echo: * data
true: * data
false: * data
:: * data
jobs: -lnprs
times:
wait: -fn -p:change data
sleep: * data
seq: -w -s: -f: --separator= --format= --equal-width data
expr: * data
factor: * data
numfmt: --from= --to= --field= --format= --padding= --suffix= --header? --grouping --delimiter= data
md5sum: -btz -cw --check --quiet --status --strict --tag --ignore-missing --warn read
sha1sum: -btz -cw --check --quiet --status --strict --tag --ignore-missing --warn read
sha224sum: -btzcw --check --quiet --status --tag read
sha256sum: -btz -cw --check --quiet --status --strict --tag --ignore-missing --warn read
sha384sum: -btzcw --check --quiet --status --tag read
sha512sum: -btz -cw --check --quiet --status --strict --tag --ignore-missing --warn read
shasum: -bctUsw -a: --algorithm= --check read
b2sum: -btz -cw -l: --check --quiet --status --tag read
cksum: -a: --algorithm= --tag read
sum: -rs read
base64: -diD -w: -b: -o:write --decode --ignore-garbage --wrap= --output=write read
base32: -di -w: --decode --ignore-garbage --wrap= read
grep: -EFGPabcHhiIlLnoqrRsTUvVwxyzZ -A: -B: -C: -D: -d: -e: -f:read -m: -0123456789 --after-context= --before-context= --context= --basic-regexp --binary --binary-files= --byte-offset --color? --colour? --count --dereference-recursive --directories= --exclude= --exclude-dir= --exclude-from=read --extended-regexp --file=read --files-with-matches --files-without-match --fixed-strings --ignore-case --no-ignore-case --include= --initial-tab --invert-match --label= --line-buffered --line-number --line-regexp --max-count= --no-filename --no-messages --null --null-data --only-matching --perl-regexp --quiet --silent --recursive --regexp= --text --with-filename --word-regexp data read
egrep: -abcHhiIlLnoqrRsvwxz -A: -B: -C: -e: -f:read -m: --color? --include= --exclude= --exclude-dir= data read
fgrep: -abcHhiIlLnoqrRsvwxz -A: -B: -C: -e: -f:read -m: --color? --include= --exclude= --exclude-dir= data read
zgrep: -cHhilLnoqsvwxE -A: -B: -C: -e: -m: data read
rg: -abcFHIiLlNnopPqsSUuvVwx0. -A: -B: -C: -d: -E: -e: -f:read -g: -j: -m: -M: -r: -t: -T: -z! --after-context= --before-context= --context= --color= --colors= --column --count --count-matches --crlf --debug --encoding= --engine= --files --files-with-matches --files-without-match --file=read --fixed-strings --follow --glob= --iglob= --heading --no-heading --hidden --ignore-case --ignore-file=read --invert-match --json --line-number --no-line-number --line-regexp --max-columns= --max-count= --max-depth= --maxdepth= --max-filesize= --multiline --multiline-dotall --no-config --no-filename --no-ignore --no-ignore-vcs --no-messages --null --only-matching --passthru --path-separator= --pcre2 --pretty --quiet --regexp= --replace= --smart-case --case-sensitive --sort= --sortr= --stats --text --threads= --trim --type= --type-not= --type-list --type-add= --unrestricted --vimgrep --with-filename --word-regexp --pre=run --pre-glob= --hostname-bin=run --search-zip! data read
fd: -0HIuasigFLlpq1 -e: -E: -d: -t: -S: -o: -c: -j: -x! -X! --hidden --no-ignore --unrestricted --case-sensitive --ignore-case --glob --fixed-strings --absolute-path --list-details --follow --full-path --print0 --max-depth= --min-depth= --exact-depth= --exclude= --type= --extension= --size= --changed-within= --changed-before= --owner= --max-results= --quiet --color= --threads= --exec! --exec-batch! data stat
fdfind: -0HIuasigFLlpq1 -e: -E: -d: -t: -x! -X! --hidden --no-ignore --max-depth= --type= --extension= --exclude= --exec! --exec-batch! data stat
tree: -adfilLpsughDFqNQrtUvxACSnJX -L: -I: -P: -H: -T: -o:write -R! --dirsfirst --noreport --prune --gitignore --charset= --filelimit= --du --sort? --inodes --device --matchdirs --ignore-case --fromfile --metafirst --filesfirst -h stat
sed: -EnrsuzL -e: -f:change -i! -I! --expression= --file=change --in-place! --quiet --silent --regexp-extended --null-data --separate --unbuffered --line-length= --posix --debug --sandbox --follow-symlinks data read
jq: -aceCjMnrRsS -L: -f:read --arg= --argjson= --slurp --raw-output --raw-input --join-output --compact-output --null-input --exit-status --sort-keys --color-output --monochrome-output --tab --indent= --args --jsonargs --stream --seq --from-file=read --slurpfile= --rawfile= data read
yq: -CMNPejnr -i! -s:change -o: -p: -I: --inplace! --split-exp=change --output-format= --input-format= --prettyPrint --no-colors --unwrapScalar? --null-input data read
zcat: -fv read
gzcat: -fv read
bzcat: read
xzcat: read
zipinfo: -12hlmMstTvzC read
readtags: -e data
ip: -46dhosrcjpN -br -brief -details -statistics -json -pretty -oneline -resolve -color -n:change -b:change -batch! -force! --json --brief --color? data
ss: -0246aAbdeEfhHiIlmnNoOprsStTuUwxZ -f: -A: -F:read -D:write -K! --tcp --udp --listening --numeric --processes --all --summary --kill! --diag=write data
netstat: -aAcegilnNoprstuvwWxM data
journalctl: -abefklmoNqrx -n: -u: -S: -U: -p: -t: -g: -o: -c: -D:read -F: -b? -k --no-pager --unit= --user-unit= --since= --until= --lines= --output= --priority= --grep= --boot? --dmesg --follow --reverse --quiet --all --no-full --full --catalog --utc --no-hostname --list-boots --disk-usage --user --system --identifier= --rotate! --flush! --sync! --vacuum-time=change --vacuum-size=change --vacuum-files=change --setup-keys! data
dmesg: -HJklrtTuxeSwWP -f: -l: -F:read -s: -c! -C! -n:change -D! -E! --human --color? --follow --kernel --level= --facility= --ctime --nopager --raw --time-format= --userspace --decode --clear! --read-clear! --console-off! --console-on!
crontab: -l -r! -e! -u:change change
umask: -Sp change
gofmt: -lds -r: -w! read
goimports: -ld -w! read
shellcheck: -axC -s: -f: -e: -S: -P: -o: -i: --format= --shell= --severity= --exclude= read
cloc: --out=write --report-file=write --extract-with=run --config=change --json --quiet --by-file --exclude-dir= stat
tokei: -f -e: -t: stat
nslookup: host
dig: -46 -t: -p: -x: host
host: -aCdlnrsTvw46 -t: host
ping: -46Aabdnqrv -c: -i: -w: -W: -s: -t: -I: host
traceroute: -46n host
tee: -aip --append --ignore-interrupts --output-error? write
touch: -acfhm -d: -r:stat -t: --date= --reference=stat --no-create --time= write
mkdir: -pvZ -m: --parents --mode= --verbose write
truncate: -co -s: -r:stat --size= --no-create --reference=stat write
rm: -rRfivdIxPW --recursive --force --interactive? --one-file-system --no-preserve-root --preserve-root? --verbose --dir data
rmdir: -pv --parents --verbose --ignore-fail-on-non-empty delete
unlink: delete
shred: -fuvxz -n: -s: --iterations= --size= --force --remove? --verbose --zero --exact delete
srm: -rfv delete
cp: -aAbdfHilLnpPrRsTuvxZ -S: -t:write --archive --force --recursive --parents --preserve? --no-preserve= --update? --no-clobber --link --symbolic-link --target-directory=write --no-target-directory --verbose --reflink? --sparse= --backup? --suffix= --dereference --no-dereference data
mv: -bfinTuvZ -S: -t:write --force --interactive --no-clobber --update? --verbose --backup? --suffix= --target-directory=write --no-target-directory --strip-trailing-slashes data
ln: -bdfFiLnPrsTv -S: -t:write --symbolic --force --relative --no-dereference --backup? --suffix= --target-directory=write data
install: -bcCdDpsTvZ -g: -m: -o: -S: -t:write --mode= --owner= --group= --directory --target-directory=write --backup? --strip-program=run data
rsync: -avzrlptgoDnPhHAXSqcCiuxWbRKkLdmO -e: -f: -T: -B: -M: --delete --delete-after --delete-before --delete-during --delete-excluded --archive --verbose --compress --dry-run --progress --partial --exclude= --include= --exclude-from=read --include-from=read --files-from=read --rsh= --rsync-path=run --stats --human-readable --checksum --log-file=write --bwlimit= --port= --timeout= --relative --update --existing --ignore-existing --remove-source-files --chmod= --chown= --link-dest= --backup --backup-dir= --suffix= --info= data
chmod: -cfvR --recursive --changes --quiet --verbose --reference=stat --preserve-root --no-preserve-root data
chown: -cfhvRHLP --recursive --changes --from= --reference=stat --no-dereference --verbose --preserve-root --no-preserve-root data
chgrp: -cfhvRHLP --recursive --reference=stat --verbose data
tar: -ctxruAdjJzZvpPmkhlwWOSaUs -f: -C:write -T:read -X:read -b: -I:run -F:run -g:write -V: -K: -N: --list --extract --get --create --append --update --concatenate --delete --diff --gzip --bzip2 --xz --zstd --verbose --file= --directory=write --exclude= --exclude-from=read --files-from=read --strip-components= --wildcards --no-same-owner --same-owner --to-stdout --checkpoint? --checkpoint-action= --to-command=run --use-compress-program=run --rsh-command=run --info-script=run --new-volume-script=run --index-file=write --transform= --absolute-names --numeric-owner --mtime= --owner= --group= --sort= --keep-old-files --overwrite data
unzip: -abcjlLnopqtuvzCDKMWX -d:write -x: -P: data
zip: -0123456789DFGJTSXcdefghijklmoqruvwyz -b: -n: -t: -x: -i: -P: --exclude= --recurse-paths data
gzip: -0123456789cdfhklLnNqrtvV -S: --stdout --to-stdout --decompress --list --test --keep --force --best --fast data
split: -0123456789dxuve -a: -b: -C: -l: -n: -t: --filter=code --bytes= --lines= --number= --additional-suffix= --numeric-suffixes? --verbose ! read write
csplit: -kqsz -b: -f: -n: ! read data
curl: -0123456AaBfGgIiJjkLlMNnOpqRSsvZ# -b:read -c:write -C: -d: -D:write -e: -E:read -F: -h: -H: -K:change -m: -o:write -P: -Q: -r: -t: -T: -u: -U: -w: -x: -X: -y: -Y: -z: --data= --data-raw= --data-binary= --data-urlencode= --json= --form= --form-string= --header= --request= --url= --output=write --output-dir=write --remote-name --remote-name-all --remote-header-name --location --silent --show-error --fail --fail-with-body --insecure --head --include --verbose --user= --user-agent= --referer= --proxy= --cookie= --cookie-jar=write --max-time= --connect-timeout= --retry= --retry-delay= --retry-all-errors --compressed --http1.1 --http2 --http3 --tlsv1.2 --cacert=read --cert=read --key=read --upload-file= --trace=write --trace-ascii=write --dump-header=write --stderr=write --etag-save=write --hsts=write --alt-svc=write --config=change --engine=run --resolve= --connect-to= --unix-socket= --interface= --write-out= --range= --create-dirs --no-progress-meter --progress-bar --netrc --get ! data
wget: -46bcdFhHkKLmNnpqrSvVxE -a:write -A: -B: -D: -e:change -i:read -I: -l: -o:write -O:write -P:write -Q: -R: -t: -T: -U: -w: -X: --output-document=write --directory-prefix=write --output-file=write --append-output=write --quiet --no-verbose --show-progress --no-check-certificate --post-data= --post-file= --body-data= --body-file= --method= --header= --user= --password= --user-agent= --tries= --timeout= --continue --recursive --level= --no-parent --mirror --page-requisites --convert-links --accept= --reject= --input-file=read --spider --use-askpass=run --execute=change --config=change --content-disposition ! data
scp: -346BCOpqrTv -c: -D: -F:run -i: -J: -l: -o: -P: -S:run -X: ! data
sftp: -46aCfNpqrv -B: -b:read -c: -D:run -F:run -i: -J: -l: -o: -P: -R: -S:run -s: ! data
bat: -pnAfPu -l: -H: -r: -m: --pager=run --language= --style= --plain --number --paging= --color= --theme= --line-range= --highlight-line= --diff ! read
less: -aBcCdeEfFgGiIJKLmMnNqQrRsSuUVwWX~ -b: -h: -j: -k:change -o:write -O:write -p: -P: -t: -T: -x: -y: -z: ! data
more: -dflcpsu ! read
ldd: -durv ! read
gpg: --list-keys --list-secret-keys --fingerprint --exec-path=run ! data
`)

// readModels reads the tables, one line a program.
func readModels(table string) map[string]*model {
	out := map[string]*model{}
	for line := range strings.Lines(table) {
		name, spec, ok := strings.Cut(line, ": ")
		if !ok {
			name, ok = strings.CutSuffix(strings.TrimSpace(line), ":")
		}
		if ok {
			out[name] = newModel(spec)
		}
	}
	return out
}
