package file

import (
	"bytes"
	"net/http"
	"strings"
)

// mediaType names the kind of an image, a PDF or an archive by its first bytes;
// empty for anything else. What reads as text is text, whatever it starts with,
// except a PDF.
func mediaType(head []byte, isText bool) string {
	if bytes.HasPrefix(head, []byte("%PDF-")) {
		return "application/pdf"
	}
	if isText {
		return ""
	}
	for _, a := range archives {
		if len(head) >= a.at && bytes.HasPrefix(head[a.at:], []byte(a.magic)) {
			return a.media
		}
	}
	switch media := http.DetectContentType(head); {
	case strings.HasPrefix(media, "image/"):
		return media
	case media == "application/zip", media == "application/x-gzip", media == "application/x-rar-compressed":
		return media
	}
	return ""
}

// archives are the formats that net/http does not know.
var archives = []struct {
	at           int
	magic, media string
}{
	{257, "ustar", "application/x-tar"},
	{0, "BZh", "application/x-bzip2"},
	{0, "\xfd7zXZ\x00", "application/x-xz"},
	{0, "\x28\xb5\x2f\xfd", "application/zstd"},
	{0, "7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"},
}
