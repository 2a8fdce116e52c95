# Run `outcry agent` on Windows in the background, from the start of the machine on. Uses the Task Scheduler, so it needs no
# other program. Run it once as administrator:
#
#   powershell -ExecutionPolicy Bypass -File install-agent.ps1 -Outcry C:\Users\me\.local\bin\outcry.exe
#
# -User       The account that runs the agent. Default: the account that runs this script. For another one, pass -Config too.
# -Config     Path of agent.toml, which must contain the key or name its file. Default: agent.toml in %LOCALAPPDATA%\outcry.
# -Uninstall  Stop the agent and remove the task. Configuration, spool and log stay.
#
# The task starts with Windows, without anybody signed in, and Windows stores no password for it. If the agent ends, the task
# starts it again within five minutes. The log is agent.log beside agent.toml.
param(
    [string]$Outcry = "",
    [string]$User = "$env:USERDOMAIN\$env:USERNAME",
    [string]$Config = "$env:LOCALAPPDATA\outcry\agent.toml",
    [switch]$Uninstall
)
$ErrorActionPreference = "Stop"
$task = "Outcry agent"

if ($Uninstall) {
    Stop-ScheduledTask -TaskName $task
    Unregister-ScheduledTask -TaskName $task -Confirm:$false
    exit 0
}
if (-not $Outcry) { $Outcry = (Get-Command outcry).Source }
if (-not (Test-Path -LiteralPath $Outcry -PathType Leaf)) { throw "$Outcry does not exist. Pass the path of outcry.exe with -Outcry." }
if (-not (Test-Path -LiteralPath $Config -PathType Leaf)) { throw "$Config does not exist. Create it with: outcry agent init" }

# Check the configuration, the key and every feed before Windows runs it unattended.
& $Outcry agent check --config $Config
if ($LASTEXITCODE -ne 0) { throw "The check failed. Correct $Config and run this script again." }

$log = Join-Path (Split-Path -Parent $Config) "agent.log"
$command = "`"`"$Outcry`" agent --log json --config `"$Config`" 2>> `"$log`"`""
$action = New-ScheduledTaskAction -Execute "$env:SystemRoot\System32\cmd.exe" -Argument "/d /c $command"
$triggers = @(
    (New-ScheduledTaskTrigger -AtStartup),
    # A running agent is left alone (IgnoreNew), so this only restarts one that has ended.
    (New-ScheduledTaskTrigger -Once -At (Get-Date) -RepetitionInterval (New-TimeSpan -Minutes 5))
)
$principal = New-ScheduledTaskPrincipal -UserId $User -LogonType S4U -RunLevel Limited
$settings = New-ScheduledTaskSettingsSet -MultipleInstances IgnoreNew -ExecutionTimeLimit ([TimeSpan]::Zero) `
    -StartWhenAvailable -AllowStartIfOnBatteries -DontStopIfGoingOnBatteries
Register-ScheduledTask -TaskName $task -Action $action -Trigger $triggers -Principal $principal -Settings $settings -Force | Out-Null
Start-ScheduledTask -TaskName $task
Write-Output "The agent runs as the task '$task'. Its log is $log."
