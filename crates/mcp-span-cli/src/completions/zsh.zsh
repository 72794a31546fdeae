#compdef mcp-span
# Completes command lines of mcp-span: it is asked itself what may stand where the cursor is. It
# answers without any connection.
_mcp-span() {
    local answer line
    local -a described
    answer="$("${(Q)words[1]}" __complete $((CURRENT - 1)) -- "${(Q@)words}" 2>/dev/null)"
    # Names of files are the shell's to complete.
    if (( $? == 10 )); then
        _files
        return
    fi
    for line in "${(@f)answer}"; do
        [[ -n $line ]] && described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    (( $#described )) && _describe -V 'mcp-span' described
}
if [[ $funcstack[1] == _mcp-span ]]; then
    _mcp-span "$@"
else
    compdef _mcp-span mcp-span
fi
