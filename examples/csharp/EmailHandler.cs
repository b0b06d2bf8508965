using System.Text.Json;

namespace Consign.Sample;

/// <summary>Simulates sending a mail; put your own handler in its place.</summary>
public sealed class EmailHandler : IJobHandler
{
    public string JobType => "email";

    public async Task<object?> HandleAsync(JobContext context, CancellationToken stop)
    {
        if (context.Job.Payload.ValueKind != JsonValueKind.Object)
        {
            throw new JobFailedException("BAD_PAYLOAD", "no object") { Poisoned = true };
        }
        var seconds = context.Job.Payload.TryGetProperty("seconds", out var value) ? value.GetDouble() : 5;
        for (var percent = 0; percent < 100; percent += 5)
        {
            context.Report(percent, percent < 40 ? "connecting" : "sending");
            await Task.Delay(TimeSpan.FromSeconds(seconds / 20), stop);
        }
        return new { sent = true };
    }
}
