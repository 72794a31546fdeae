# Completes command lines of mcp-span: it is asked itself what may stand where the cursor is. It
# answers without any connection.
_mcp_span() {
    local program answer value
    program=$(type -P -- "$1") || program=mcp-span
    COMPREPLY=()
    answer=$("$program" __complete "$COMP_CWORD" -- "${COMP_WORDS[@]}" 2>/dev/null)
    # Names of files are the shell's to complete.
    if [[ $? -eq 10 ]]; then
        compopt -o default 2>/dev/null || COMPREPLY=($(compgen -f -- "$2"))
        return
    fi
    while IFS=$'\t' read -r value _; do
        [[ -n $value ]] || continue
        printf -v value '%q' "$value"
        COMPREPLY+=("$value")
    done <<<"$answer"
}
complete -o nosort -F _mcp_span mcp-span 2>/dev/null || complete -F _mcp_span mcp-span
