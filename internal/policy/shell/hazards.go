package shell

import (
	"strings"
)

// hazard is a command that is objected to because of its words.
type hazard struct {
	what  string
	words [][]string // after the program: its subcommands, alternatives of each
	any   []string   // one of these options must be there; none = no matter
	not   []string   // none of these may be there
}

// hazardous are the commands that are dangerous or worse whatever else they say,
// by program. A line is "what: program word word|other --option … !--option".
var hazardous = readHazards(`
force_push: git push --force --force-with-lease -f --mirror --prune --delete -d !--dry-run
force_push: git send-pack --force --mirror
discard_changes: git reset --hard --merge --keep
discard_changes: git checkout -f --force --ours --theirs
discard_changes: git switch -f --force --discard-changes -C
discard_changes: git clean -f --force !-n !--dry-run
discard_changes: git worktree remove -f --force
discard_changes: git submodule deinit -f --force --all
discard_changes: git rm -f --force !--cached
delete_branch: git branch -D
delete_branch: git tag -d --delete
delete_branch: git stash drop|clear
delete_branch: git update-ref -d --stdin
delete_branch: git remote remove|rm|prune
delete_branch: git notes prune|remove
rewrite_history: git reflog expire|delete
rewrite_history: git gc --prune
rewrite_history: git prune
rewrite_history: git filter-branch|filter-repo|replace
rewrite_history: bfg
secret: git credential fill
secret: git credential-store
secret: gh auth token
secret: gh auth status -t --show-token
mail: git send-email
system_write: git apply --unsafe-paths
hidden_program: git difftool|mergetool -x --extcmd
hosted_repository: gh repo delete|archive|rename|transfer
hosted_repository: gh release|secret|variable|gist|cache|run|issue delete|delete-asset
hosted_repository: gh pr merge --admin
hosted_repository: gh ssh-key|gpg-key add|delete
hosted_repository: glab repo|mr|release delete
shutdown: shutdown
shutdown: reboot
shutdown: poweroff
shutdown: halt
shutdown: init 0|6
shutdown: telinit 0|6
shutdown: systemctl reboot|poweroff|halt|suspend|hibernate|kexec|rescue|emergency|soft-reboot
kill: killall5
kill: loginctl terminate-user|kill-user|terminate-session|kill-session|terminate-seat
kill: xkill
service: systemctl stop|disable|mask|kill|isolate|daemon-reexec|edit|set-default|revert
service: systemctl restart|start|enable|reload !--user
service: service !--status-all
service: rc-service
service: launchctl unload|remove|bootout|disable
schedule: systemctl enable
schedule: crontab -r -e
schedule: at
schedule: launchctl load|bootstrap
schedule: update-rc.d
format: mkfs
format: mke2fs
format: mkswap
format: mkdosfs
format: mkntfs
format: newfs
format: wipefs -a --all -o --offset -af
format: blkdiscard
format: sgdisk --zap-all -Z -z --zap -o --clear -d --delete
format: sfdisk !-l !--list !-d !--dump
format: cfdisk
format: parted mklabel|mkpart|rm
format: parted -s --script
format: cryptsetup luksFormat|luksErase|erase|reencrypt
format: nvme format|sanitize
format: hdparm --security-erase --security-erase-enhanced --trim-sector-ranges
format: badblocks -w -n
format: mdadm --zero-superblock --create -C
format: diskutil eraseDisk|eraseVolume|partitionDisk|reformat|zeroDisk|secureErase
format: dmsetup wipe_table
format: zpool labelclear
disk: fdisk !-l
disk: gdisk !-l
disk: parted !-l !--list
disk: lvremove
disk: vgremove
disk: pvremove
disk: lvreduce
disk: lvresize
disk: resize2fs
disk: tune2fs !-l
disk: e2fsck !-n
disk: fsck !-n !-N
disk: debugfs -w
disk: hdparm
disk: fstrim
disk: zfs destroy|rollback
disk: zpool destroy|create|remove|detach
disk: btrfs subvolume delete
disk: btrfs device|balance|filesystem
disk: cryptsetup
disk: mdadm !--detail !--query !--examine
disk: losetup -d -D --detach --detach-all
disk: umount
disk: swapoff
disk: swapon
disk: dmsetup remove|remove_all|suspend
kernel: sysctl -w --write -p --load --system
kernel: insmod
kernel: rmmod
kernel: modprobe
kernel: depmod
kernel: kexec
kernel: setenforce
kernel: bpftool
kernel: update-grub
kernel: grub-install
kernel: grub2-install
kernel: bootctl install|remove
kernel: efibootmgr -B -b -c -o
firewall: iptables -F --flush -X -P -D -A -I -Z --policy --append --delete --insert
firewall: ip6tables -F --flush -X -P -D -A -I -Z --policy --append --delete --insert
firewall: iptables-restore
firewall: nft flush|delete|add
firewall: ufw disable|reset|delete|deny|allow|enable|default
firewall: firewall-cmd --permanent --reload --panic-on
firewall: pfctl -d -F
firewall: ip -batch -b -force
firewall: ip link|addr|address|route|rule|neigh set|add|del|delete|flush|change|replace
firewall: ip netns add|del|delete
firewall: ifconfig down|up
firewall: ifdown
firewall: nmcli networking|radio off
firewall: nmcli connection|con|device delete|down|disconnect
firewall: ss -K --kill
firewall: route add|del|flush
account: passwd
account: chpasswd
account: useradd
account: userdel
account: usermod
account: adduser
account: deluser
account: groupadd
account: groupdel
account: groupmod
account: gpasswd
account: chsh
account: chfn
account: visudo
account: vipw
account: newgrp
clock: hwclock -w -s --systohc --hctosys --set
clock: timedatectl set-time|set-timezone|set-ntp|set-local-rtc
clock: ntpdate
clock: hostnamectl set-hostname|hostname
clock: date -s --set
logs: journalctl --vacuum-time --vacuum-size --vacuum-files --rotate --flush
logs: dmesg -C -c --clear --read-clear
logs: logrotate -f --force
permissions: chattr
permissions: setfacl
permissions: setcap
permissions: xattr -c -w -d
packages: apt-get remove|purge|autoremove|dist-upgrade|full-upgrade
packages: apt remove|purge|autoremove|full-upgrade
packages: aptitude remove|purge
packages: dpkg -r -P --remove --purge --force-all
packages: yum remove|erase|autoremove
packages: dnf remove|erase|autoremove
packages: zypper remove|rm
packages: rpm -e --erase
packages: pacman -R -Rs -Rns -Rsc
packages: apk del
packages: snap remove
packages: flatpak uninstall
packages: brew uninstall|remove|rm|autoremove
publish: npm publish|unpublish|deprecate|access|owner|dist-tag|token
publish: pnpm publish|unpublish
publish: yarn publish
publish: bun publish
publish: cargo publish|yank|owner
publish: gem push|yank|owner
publish: twine upload
publish: poetry publish
publish: uv publish
publish: flit publish
publish: hatch publish
publish: mvn deploy
publish: gradle publish
publish: dotnet nuget push|delete
publish: docker push
publish: docker buildx build --push
publish: podman push
publish: skopeo copy|delete
publish: helm push
publish: gh release create
publish: vsce publish
publish: wrangler deploy|delete
publish: vercel --prod deploy
publish: netlify deploy
publish: firebase deploy
publish: goreleaser release
database: dropdb
database: dropuser
database: mysqladmin drop|shutdown
database: redis-cli flushall|flushdb|shutdown
database: rake db:drop|db:reset
database: rails db:drop|db:reset|db:schema:load
database: python manage.py flush|reset_db|sqlflush
database: python3 manage.py flush|reset_db|sqlflush
database: php artisan migrate:fresh|migrate:reset|db:wipe
database: artisan migrate:fresh|db:wipe
database: prisma migrate reset
database: npx prisma migrate reset
database: sequelize db:drop
database: etcdctl del
database: consul kv delete
database: influx delete
containers: docker system prune
containers: docker volume rm|prune|remove
containers: docker image prune -a --all
containers: docker container|network|builder prune
containers: docker rm -f --force -v --volumes
containers: docker rmi -f --force
containers: docker compose down -v --volumes --rmi
containers: docker-compose down -v --volumes --rmi
containers: docker swarm|node|stack|service|secret|config rm|leave|remove
containers: docker run|create --privileged
containers: podman system prune|reset
containers: podman volume rm|prune
containers: podman rm -f --force
containers: docker kill
containers: vagrant destroy
containers: virsh destroy|undefine|vol-delete
containers: lxc delete
containers: minikube delete
containers: kind delete
cluster: kubectl delete|drain|cordon|taint|replace
cluster: kubectl scale --replicas
cluster: kubectl rollout undo|restart
cluster: oc delete
cluster: helm uninstall|delete|rollback
cluster: flux uninstall|delete
cluster: argocd app delete
cluster: kubeadm reset
cluster: nomad job stop|purge
cluster: nomad system gc
cloud: terraform destroy|taint|force-unlock
cloud: terraform apply -auto-approve --auto-approve -destroy
cloud: terraform state rm|mv|push
cloud: terraform workspace delete
cloud: tofu destroy
cloud: tofu apply -auto-approve --auto-approve -destroy
cloud: terragrunt destroy|run-all
cloud: pulumi destroy|cancel
cloud: pulumi up --yes -y
cloud: pulumi stack rm
cloud: cdk destroy
cloud: sam delete
cloud: serverless remove
cloud: sls remove
cloud: aws s3 rm|rb
cloud: aws s3 sync --delete
cloud: eksctl delete
cloud: gsutil rm|rb
cloud: az group|vm|storage|aks|sql delete
cloud: doctl compute|databases|kubernetes delete
cloud: heroku apps:destroy|pg:reset|addons:destroy
cloud: flyctl destroy
cloud: fly apps|machine|volumes destroy
cloud: railway down|delete
cloud: vercel remove|rm
cloud: hcloud server|volume delete
cloud: rclone delete|purge|sync|deletefile|rmdirs
cloud: mc rm|rb
cloud: ansible-playbook !--check !-C !--syntax-check !--list-tasks !--list-hosts !--version
scan: nmap
scan: masscan
scan: zmap
mail: mail
mail: mailx
mail: sendmail
mail: mutt
mail: swaks
debugger: gdb -p --pid
debugger: strace -p
debugger: lldb -p
debugger: dlv attach
secret: pass show
secret: op read
secret: vault read
secret: vault kv get
secret: aws secretsmanager get-secret-value
secret: aws configure export-credentials
secret: aws sts get-session-token
secret: gcloud auth print-access-token
secret: gcloud auth print-identity-token
secret: az account get-access-token
secret: kubectl get secret|secrets -o --output
secret: kubectl config view --raw
secret: security find-generic-password|dump-keychain
secret: gpg --export-secret-keys --export-secret-subkeys
secret: secret-tool lookup
secret: keyctl print|read
secret: npm config get
secret: heroku config
system_write: ldconfig
account: faillock --reset
`)

func readHazards(table string) map[string][]hazard {
	out := map[string][]hazard{}
	for line := range strings.Lines(table) {
		what, rest, ok := strings.Cut(line, ": ")
		if !ok {
			continue
		}
		words := strings.Fields(rest)
		h := hazard{what: what}
		for _, w := range words[1:] {
			switch w[0] {
			case '-':
				h.any = append(h.any, w)
			case '!':
				h.not = append(h.not, w[1:])
			default:
				h.words = append(h.words, strings.Split(w, "|"))
			}
		}
		out[words[0]] = append(out[words[0]], h)
	}
	return out
}

// hazards finds what the tables object to in a command.
func (sh *state) hazards(c *call) {
	name, args := c.name, c.argv[1:]
	if stem, _, ok := strings.Cut(name, "."); ok && stem == "mkfs" || name == "mkfs.ext4" {
		name = stem
	}
	if c.name == "git" {
		args = append([]value{literal(c.sub)}, c.args...)
	}
	for _, h := range hazardous[name] {
		if h.matches(args) {
			sh.a.find(h.what, quote(joined(c.argv, " ").text))
		}
	}
}

func (h hazard) matches(args []value) bool {
	if len(h.any) > 0 && !hasOption(args, h.any) {
		return false
	}
	if len(h.not) > 0 && hasOption(args, h.not) {
		return false
	}
	if len(h.words) == 0 {
		return true
	}
	// An option's argument may stand among the words, or look like one.
	var all, bare []string
	after := false
	for _, v := range args {
		if strings.HasPrefix(v.text, "-") && len(v.text) > 1 {
			after = !strings.Contains(v.text, "=")
			continue
		}
		all = append(all, v.text)
		if !after {
			bare = append(bare, v.text)
		}
		after = false
	}
	return startsWith(all, h.words) || startsWith(bare, h.words)
}

func startsWith(got []string, want [][]string) bool {
	for i, alternatives := range want {
		if i >= len(got) {
			return false
		}
		ok := false
		for _, w := range alternatives {
			ok = ok || strings.EqualFold(w, got[i])
		}
		if !ok {
			return false
		}
	}
	return true
}

// hasOption says whether one of names is among args: whole, with a value, as a
// prefix that getopt would complete, or in a cluster of letters.
func hasOption(args []value, names []string) bool {
	for _, v := range args {
		t, _, _ := strings.Cut(v.text, "=")
		if v.is("--") {
			return false
		}
		if len(t) < 2 || t[0] != '-' {
			continue
		}
		for _, n := range names {
			switch {
			case t == n:
				return true
			case strings.HasPrefix(t, "--"):
				if len(t) >= 4 && strings.HasPrefix(n, t) {
					return true
				}
			case len(n) == 2 && strings.Contains(t, n[1:]):
				return true
			}
		}
	}
	return false
}
