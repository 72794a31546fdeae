# Completes command lines of mcp-span: it is asked itself what may stand where the cursor is. It
# answers without any connection.
function __mcp_span_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    $before[1] __complete (count $before) -- $before $current 2>/dev/null
    # Names of files are the shell's to complete.
    if test $status -eq 10
        __fish_complete_path $current
    end
end
complete -c mcp-span -f -k -a '(__mcp_span_complete)'
