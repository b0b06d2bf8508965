using System.Net.Http.Headers;
using System.Text.Json;
using Consign.Sample;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

var url = Environment.GetEnvironmentVariable("CONSIGN_URL") ?? "http://127.0.0.1:8470";
var key = Environment.GetEnvironmentVariable("CONSIGN_KEY");
if (string.IsNullOrEmpty(key))
{
    Console.Error.WriteLine("first: export CONSIGN_KEY=$(cat consign-data/admin.key)");
    return 1;
}

// Longer than any wait that a request asks for.
using var http = new HttpClient { BaseAddress = new Uri(url), Timeout = TimeSpan.FromSeconds(60) };
http.DefaultRequestHeaders.Authorization = new AuthenticationHeaderValue("Bearer", key);
var consign = new ConsignClient(http);

switch (args)
{
    case ["work"]:
        var builder = Host.CreateApplicationBuilder();
        builder.Services.AddSingleton(consign);
        builder.Services.AddSingleton<IJobHandler, EmailHandler>();
        builder.Services.AddHostedService<JobWorker>();
        await builder.Build().RunAsync();
        return 0;
    case [var jobType, var payload]:
        return await FollowAsync(jobType, payload, Guid.NewGuid().ToString());
    case [var jobType, var payload, var idempotencyKey]:
        return await FollowAsync(jobType, payload, idempotencyKey);
    default:
        Console.Error.WriteLine("usage: dotnet run -- work | dotnet run -- TYPE PAYLOAD [IDEMPOTENCY_KEY]");
        return 2;
}

// 0 Completed, 3 Failed, 4 Poisoned, 5 Cancelled; 1 when it was not accepted.
async Task<int> FollowAsync(string jobType, string payload, string idempotencyKey)
{
    try
    {
        var job = new NewJob(jobType, JsonSerializer.Deserialize<JsonElement>(payload));
        var accepted = await consign.EnqueueAsync(job, idempotencyKey);
        Console.WriteLine($"submitted as {accepted.JobId}{(accepted.Duplicate ? ", which was known already" : "")}");
        var last = "";
        await foreach (var status in consign.FollowAsync(accepted.StatusUrl))
        {
            var attempt = $"attempt {status.Attempt} of {status.MaxAttempts}";
            Console.WriteLine($"{status.Status}, {attempt}  {status.Progress?.Note}  {status.ErrorCode}");
            last = status.Status;
        }
        return last switch { "Completed" => 0, "Failed" => 3, "Poisoned" => 4, _ => 5 };
    }
    catch (Exception error) when (error is ConsignException or HttpRequestException or JsonException)
    {
        Console.Error.WriteLine(error.Message);
        return 1;
    }
}
