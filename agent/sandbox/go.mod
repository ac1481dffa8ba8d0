module mikan.dev/sandbox

go 1.25
