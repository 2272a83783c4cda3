package shell

import "maps"

func init() { maps.Copy(models, subcommands) }

// subcommands are the programs that have some, and the readers among them.
var subcommands = readModels(`
git: + -C: -c: -pP --git-dir= --work-tree= --namespace= --exec-path? --config-env= --no-pager --paginate --no-optional-locks --no-replace-objects --bare --literal-pathspecs --glob-pathspecs --icase-pathspecs --html-path --man-path --info-path data
git status: -sbuvz --short --branch --porcelain? --long --show-stash --untracked-files? --ignored? --ignore-submodules? --column? --no-column --ahead-behind --renames --no-renames --find-renames? --verbose stat
git log: -pusnNriSzcmtaGg0123456789 -n: -S: -G: -L: -O: -U: -M? -C? -X? -W -w -b -q --oneline --graph --all --decorate? --no-decorate --stat? --shortstat --numstat --name-only --name-status --no-merges --merges --first-parent --reverse --follow --author= --committer= --grep= --since= --until= --after= --before= --max-count= --skip= --format= --pretty? --date= --abbrev-commit --abbrev? --patch --no-patch --diff-filter= --branches? --tags? --remotes? --not --invert-grep --all-match --regexp-ignore-case --extended-regexp --fixed-strings --date-order --topo-order --author-date-order --cherry-pick --cherry-mark --left-right --show-signature --no-color --color? --word-diff? --no-ext-diff --no-textconv --ext-diff! --textconv! --output=write --raw --full-history --simplify-merges --parents --children --boundary --walk-reflogs --source --no-walk? --unified= --ignore-all-space --find-renames? --find-copies? --minimal --summary --dirstat? --relative? data
git show: -psqwbmcUz -U: -n: -M? --stat? --shortstat --numstat --name-only --name-status --oneline --format= --pretty? --no-patch --patch --abbrev-commit --abbrev? --no-color --color? --no-ext-diff --no-textconv --ext-diff! --textconv! --output=write --date= --decorate? --raw --summary --unified= --word-diff? --diff-filter= --show-signature --no-notes --first-parent data
git diff: -puswbWRaz -U: -S: -G: -M? -C? -O: -l: --stat? --shortstat --numstat --name-only --name-status --cached --staged --no-index --color? --no-color --word-diff? --word-diff-regex= --check --exit-code --quiet --summary --raw --patch --no-patch --unified= --diff-filter= --ignore-all-space --ignore-space-change --ignore-blank-lines --minimal --patience --histogram --find-renames? --find-copies? --relative? --no-prefix --no-ext-diff --no-textconv --ext-diff! --textconv! --output=write --submodule? --merge-base --function-context --full-index --binary --compact-summary --dirstat? --ignore-submodules? --no-renames --abbrev? data
git diff-tree: -rtcmpsz --no-commit-id --name-only --name-status --root --stat? --patch --output=write data
git diff-index: -mpz --cached --name-only --name-status --quiet --exit-code --output=write data
git branch: -avrlqi --all --remotes --verbose --list --show-current --contains? --no-contains? --merged? --no-merged? --points-at= --sort= --format= --color? --no-color --column? --ignore-case data
git tag: -lni -n? --list --contains? --no-contains? --merged? --no-merged? --points-at= --sort= --format= --column? --ignore-case data
git remote: -v --verbose data
git rev-parse: -q --show-toplevel --git-dir --git-common-dir --absolute-git-dir --abbrev-ref? --short? --verify --quiet --is-inside-work-tree --is-inside-git-dir --is-bare-repository --show-prefix --show-cdup --symbolic --symbolic-full-name --all --branches? --tags? --remotes? --show-superproject-working-tree --show-object-format? --path-format= --git-path= data
git rev-list: -n: --count --all --max-count= --since= --until= --author= --no-merges --merges --first-parent --left-right --objects --reverse --branches? --tags? --not --oneline --ancestry-path? --grep= data
git ls-files: -cdmosiktuvz -x: -X:read --cached --deleted --modified --others --ignored --stage --unmerged --exclude= --exclude-standard --exclude-from=read --error-unmatch --full-name --eol --directory --no-empty-directory --recurse-submodules --abbrev? stat
git ls-tree: -drtlz --long --name-only --name-status --full-name --full-tree --object-only --abbrev? --format= data
git cat-file: -ptse --batch? --batch-check? --textconv! --filters! --batch-all-objects data
git blame: -bcefklnpstwC -L: -M? -C? -S: --porcelain --line-porcelain --incremental --show-email --show-name --show-number --date= --no-textconv --textconv! --since= --ignore-rev= --ignore-revs-file=read --abbrev= data
git annotate: -L: data
git shortlog: -nsec -w? --numbered --summary --email --group= --all --since= --no-merges --format= data
git describe: --tags --all --always --long --dirty? --broken? --abbrev= --contains --exact-match --match= --exclude= --candidates= --first-parent data
git reflog: -n: --all --date= --oneline --format= -0123456789 data
git stash: -pu --stat --patch --name-only data
git config: -lz --list --get= --get-all= --get-regexp= --show-origin --show-scope --name-only --null --global --system --local --worktree --type= --bool --int --path --includes --default= -f:read --file=read data
git worktree: -vz --porcelain --verbose data
git grep: -acEFGhHiIlLnopPqrvwWz -A: -B: -C: -e: -f:read -m: -O?run --cached --untracked --no-index --count --extended-regexp --fixed-strings --perl-regexp --ignore-case --line-number --column --files-with-matches --files-without-match --name-only --word-regexp --invert-match --only-matching --max-depth= --and --or --not --all-match --recurse-submodules --show-function --function-context --heading --break --color? --no-color --textconv! --no-textconv --open-files-in-pager?run --threads= data
git merge-base: -a --all --octopus --independent --is-ancestor --fork-point data
git name-rev: --name-only --tags --refs= --all --always data
git for-each-ref: --format= --sort= --count= --points-at= --contains? --merged? --no-merged? --no-contains? --shell --exclude= data
git show-ref: -qsdh --heads --tags --verify --hash? --abbrev? --head --dereference --branches data
git show-branch: -ar --all --remotes --current --list --topo-order data
git symbolic-ref: -q --short --quiet data
git check-ignore: -vqnz --verbose --quiet --non-matching --stdin --no-index data
git check-attr: -az --all --cached --stdin data
git check-mailmap: --stdin data
git count-objects: -vH --verbose --human-readable
git var: -l data
git whatchanged: -p -n: --oneline --stat --since= --output=write data
git range-diff: --creation-factor= --no-color --color? --output=write data
git cherry: -v --abbrev? data
git verify-commit: -v --raw data
git verify-tag: -v --raw data
git help: -agc --all --guides --config data
git version: --build-options
git clean: -ndfxXqe -e: --dry-run --force --quiet --exclude= data
git notes: data
git submodule: data
go: + data
go version: -mv read
go env: -json -changed -w! -u! data
go help: data
go doc: -all -c -cmd -short -src -u data
node: data
pip: + data
pip list: -ve -o! --outdated! --format= --not-required --user --local
pip show: -fv --files data
pip freeze: -lr --all --user
pip check:
pip3: + data
pip3 list: -ve -o! --outdated! --format= --not-required --user --local
pip3 show: -fv --files data
pip3 freeze: -lr --all
npm: + -g -s --prefix= --silent --loglevel= data
npm ls: -alg --depth= --all --json --long --parseable --prod --dev --omit= --global data
npm list: -alg --depth= --all --json --long --parseable --prod --dev --omit= --global data
npm root: -g
npm prefix: -g
yarn: + data
yarn list: --depth= --pattern=
cargo: + -qv --color= --offline --locked data
cargo version: -v
rustup: + data
rustup show:
rustup toolchain: data
docker: + -D -H:change -l: -c:change --host=change --context=change --config=change --log-level= --tls --tlsverify data
docker ps: -alnqs -f: -n: --all --filter= --format= --last= --latest --no-trunc --quiet --size
docker images: -aq -f: --all --digests --filter= --format= --no-trunc --quiet data
docker logs: -fnt -n: --details --follow --since= --tail= --timestamps --until= data
docker inspect: -fs -f: --format= --size --type= data
docker version: -f: --format=
docker info: -f: --format=
docker stats: -a --all --no-stream --format= --no-trunc data
docker top: data
docker port: data
docker diff: data
docker history: -Hq --format= --human --no-trunc --quiet data
podman: + data
podman ps: -alnqs --all --format= --filter= -f: --no-trunc
podman images: -aq --all --format=
podman logs: -ft --follow --since= --tail= --timestamps data
systemctl: + -alqlrt -n: -o: -p: -t: -H:change -M:change --type= --state= --user --system --no-pager --all --full --plain --no-legend --lines= --output= --property= --value --failed --quiet --host=change data
systemctl status: -alnoq -n: -o: --no-pager --full --lines= --all data
systemctl show: -ap -p: --property= --value --no-pager --all data
systemctl list-units: -a -t: --type= --state= --all --no-pager --plain --no-legend --failed data
systemctl list-unit-files: -a -t: --type= --state= --no-pager data
systemctl list-timers: -a --all --no-pager data
systemctl list-sockets: -a --all --no-pager data
systemctl list-dependencies: -a --all --reverse --no-pager data
systemctl is-active: -q --quiet data
systemctl is-enabled: -q --quiet data
systemctl is-failed: -q --quiet data
systemctl cat: --no-pager data
systemctl get-default:
systemctl --failed:
hostnamectl: + data
hostnamectl status:
timedatectl: + data
timedatectl status:
timedatectl show: -p: --property= --value
timedatectl list-timezones:
loginctl: + --no-pager data
loginctl list-sessions: --no-pager
loginctl list-users: --no-pager
apt: + data
apt list: -a --installed --upgradable --all-versions data
apt show: -a data
apt search: data
apt-cache: + data
apt-cache search: data
apt-cache show: data
apt-cache policy: data
dpkg: -lLsSp -l -L --list --status --search --listfiles --get-selections --print-architecture data
brew: + data
brew list: -1 --versions --formula --cask data
openssl: + data
openssl version: -a
`)
