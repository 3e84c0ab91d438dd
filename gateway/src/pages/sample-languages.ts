/** The request of a code sample. */
export interface SampleRequest {
  readonly method: string
  /** Path with parameters in braces, as in the document. */
  readonly template: string
  /** The values of these parameters. */
  readonly path: Readonly<Record<string, string>>
  /** The required query parameters. */
  readonly query: Readonly<Record<string, string>>
  /** The headers, except Content-Type. */
  readonly headers: Readonly<Record<string, string>>
  /** Environment variable with the credentials of `Authorization`; undefined if none are needed. */
  readonly bearer: 'LICENSING_API_KEY' | 'ACTIVATION_TOKEN' | undefined
  readonly body: unknown
}

interface Language {
  /** The name of the language in syntax highlighters. */
  readonly lang: string
  readonly label: string
  readonly write: (request: SampleRequest) => string
}

/** The languages of the samples. Each uses the HTTP client of its standard library; TypeScript uses the SDK. */
export const languages: readonly Language[] = [
  { lang: 'shell', label: 'curl', write: curl },
  { lang: 'typescript', label: 'TypeScript', write: typescript },
  { lang: 'python', label: 'Python', write: python },
  { lang: 'go', label: 'Go', write: go },
  { lang: 'java', label: 'Java', write: java },
  { lang: 'csharp', label: 'C#', write: csharp },
  { lang: 'php', label: 'PHP', write: php },
  { lang: 'ruby', label: 'Ruby', write: ruby },
]

function addressOf({ template, path, query }: SampleRequest): string {
  const address = template.replaceAll(/\{(\w+)\}/g, (_, name: string) => path[name] ?? name)
  const asked = new URLSearchParams(query).toString()
  return asked === '' ? address : `${address}?${asked}`
}

const jsonOf = ({ body }: SampleRequest) => JSON.stringify(body, null, 2)

/** All headers but `Authorization`. */
const headersOf = ({ headers, body }: SampleRequest): [string, string][] =>
  Object.entries({ ...(body !== undefined && { 'Content-Type': 'application/json' }), ...headers })

const indented = (text: string, by: string) => text.replaceAll('\n', `\n${by}`)

function curl(request: SampleRequest): string {
  const { method, bearer, body } = request
  return [
    `curl --fail-with-body --request ${method} "$LICENSING_URL${addressOf(request)}"`,
    ...(bearer ? [`--header "Authorization: Bearer $${bearer}"`] : []),
    ...headersOf(request).map(([name, value]) => `--header '${name}: ${value}'`),
    ...(body === undefined ? [] : [`--data '${jsonOf(request).replaceAll("'", String.raw`'\''`)}'`]),
  ].join(' \\\n  ')
}

/** A value as a JavaScript literal, without quotes around names that need none. */
function literal(value: unknown): string {
  return JSON.stringify(value, null, 2).replaceAll(/^(\s*)"([a-z_]\w*)":/gm, '$1$2:')
}

function typescript(request: SampleRequest): string {
  const { method, template, path, query, headers, bearer, body } = request
  if (bearer !== 'LICENSING_API_KEY') return fetched(request)
  const key = headers['Idempotency-Key']
  const options = [
    ...(Object.keys(path).length === 0 ? [] : [`path: ${literal(path)},`]),
    ...(Object.keys(query).length === 0 ? [] : [`query: ${literal(query)},`]),
    ...(body === undefined ? [] : [`body: ${literal(body)},`]),
    ...(key === undefined ? [] : [`idempotencyKey: '${key}',`]),
  ].join('\n')
  const given = options === '' ? '' : `, {\n  ${indented(options, '  ')}\n}`
  return `import { createLicensingBackend } from '@licensing/sdk/backend'

const licensing = createLicensingBackend({
  baseUrl: process.env['LICENSING_URL']!,
  apiKey: process.env['LICENSING_API_KEY']!,
})
console.log(await licensing.${method.toLowerCase()}('${template}'${given}))`
}

/** A sample for installed products, with `fetch`. */
function fetched(request: SampleRequest): string {
  const { method, bearer, body } = request
  const headers = [
    ...(bearer ? [`authorization: \`Bearer \${process.env['${bearer}']}\`,`] : []),
    ...headersOf(request).map(([name, value]) => `'${name.toLowerCase()}': '${value}',`),
  ]
  const members = [
    `method: '${method}',`,
    ...(headers.length === 0 ? [] : [`headers: {\n  ${headers.join('\n  ')}\n},`]),
    ...(body === undefined ? [] : [`body: JSON.stringify(${literal(body)}),`]),
  ].join('\n')
  return `// LicenceClient of @licensing/sdk does this by itself.
const response = await fetch(\`\${process.env['LICENSING_URL']}${addressOf(request)}\`, {
  ${indented(members, '  ')}
})
console.log(response.status, await response.text())`
}

function python(request: SampleRequest): string {
  const { method, bearer, body } = request
  const headers = [
    ...(bearer ? [`"Authorization": "Bearer " + os.environ["${bearer}"],`] : []),
    ...headersOf(request).map(([name, value]) => `"${name}": "${value}",`),
  ]
  const value = JSON.stringify(body, null, 4)?.replaceAll(/\b(?:true|false|null)\b(?=,?$)/gm, pythonWord)
  const members = [
    `os.environ["LICENSING_URL"] + "${addressOf(request)}",`,
    `method="${method}",`,
    ...(headers.length === 0 ? [] : [`headers={\n    ${headers.join('\n    ')}\n},`]),
    ...(body === undefined ? [] : [`data=json.dumps(${value}).encode(),`]),
  ].join('\n')
  return `${body === undefined ? '' : 'import json\n'}import os
import urllib.request

request = urllib.request.Request(
    ${indented(members, '    ')}
)
with urllib.request.urlopen(request) as response:
    print(response.status, response.read().decode())`
}

const pythonWord = (word: string) => ({ true: 'True', false: 'False', null: 'None' })[word] ?? word

function go(request: SampleRequest): string {
  const { method, bearer, body } = request
  const reader = body === undefined ? 'nil' : `strings.NewReader(\`${jsonOf(request)}\`)`
  const imports = ['fmt', 'io', 'net/http', 'os', ...(body === undefined ? [] : ['strings'])]
  const lines = [
    ...(bearer ? [`request.Header.Set("Authorization", "Bearer "+os.Getenv("${bearer}"))`] : []),
    ...headersOf(request).map(([name, value]) => `request.Header.Set("${name}", "${value}")`),
  ]
  return `package main

import (
${imports.map((name) => `\t"${name}"`).join('\n')}
)

func main() {
	request, err := http.NewRequest("${method}", os.Getenv("LICENSING_URL")+"${addressOf(request)}", ${reader})
	if err != nil {
		panic(err)
	}
${lines.map((line) => `\t${line}\n`).join('')}	response, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	fmt.Println(response.StatusCode, string(answer), err)
}`
}

function java(request: SampleRequest): string {
  const { method, bearer, body } = request
  const publisher =
    body === undefined
      ? 'BodyPublishers.noBody()'
      : `BodyPublishers.ofString("""\n${jsonOf(request).replaceAll(/^/gm, '                ')}""")`
  const lines = [
    ...(bearer ? [`.header("Authorization", "Bearer " + System.getenv("${bearer}"))`] : []),
    ...headersOf(request).map(([name, value]) => `.header("${name}", "${value}")`),
  ]
  return `import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;

class Sample {
    public static void main(String[] args) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(System.getenv("LICENSING_URL") + "${addressOf(request)}"))
            .method("${method}", ${publisher})
${lines.map((line) => `            ${line}\n`).join('')}            .build();
        var response = HttpClient.newHttpClient().send(request, BodyHandlers.ofString());
        System.out.println(response.statusCode() + " " + response.body());
    }
}`
}

function csharp(request: SampleRequest): string {
  const { method, bearer, headers, body } = request
  const text = jsonOf(request)?.replaceAll('"', '""')
  const lines = [
    ...(bearer
      ? [`request.Headers.Add("Authorization", "Bearer " + Environment.GetEnvironmentVariable("${bearer}"));`]
      : []),
    ...Object.entries(headers).map(([name, value]) => `request.Headers.Add("${name}", "${value}");`),
    ...(body === undefined
      ? []
      : [`request.Content = new StringContent(@"${text}", Encoding.UTF8, "application/json");`]),
  ]
  return `using System;
using System.Net.Http;
using System.Text;

static class Sample
{
    static void Main()
    {
        var address = Environment.GetEnvironmentVariable("LICENSING_URL") + "${addressOf(request)}";
        using (var client = new HttpClient())
        using (var request = new HttpRequestMessage(new HttpMethod("${method}"), address))
        {
${lines.map((line) => `            ${line}\n`).join('')}            using (var response = client.SendAsync(request).Result)
                Console.WriteLine((int)response.StatusCode + " " + response.Content.ReadAsStringAsync().Result);
        }
    }
}`
}

function php(request: SampleRequest): string {
  const { method, bearer, body } = request
  const headers = [
    ...(bearer ? [`'Authorization: Bearer ' . getenv('${bearer}'),`] : []),
    ...headersOf(request).map(([name, value]) => `'${name}: ${value}',`),
  ]
  const members = [
    `'method' => '${method}',`,
    ...(headers.length === 0 ? [] : [`'header' => [\n    ${headers.join('\n    ')}\n],`]),
    ...(body === undefined ? [] : [`'content' => <<<'JSON'\n${jsonOf(request)}\nJSON,`]),
    `'ignore_errors' => true,`,
  ].join('\n')
  return `<?php
$context = stream_context_create(['http' => [
    ${indented(members, '    ')}
]]);
echo file_get_contents(getenv('LICENSING_URL') . '${addressOf(request)}', false, $context);`
}

function ruby(request: SampleRequest): string {
  const { method, bearer, body } = request
  const kind = method.charAt(0) + method.slice(1).toLowerCase()
  const lines = [
    ...(bearer ? [`request['Authorization'] = "Bearer #{ENV.fetch('${bearer}')}"`] : []),
    ...headersOf(request).map(([name, value]) => `request['${name}'] = '${value}'`),
    ...(body === undefined ? [] : [`request.body = <<~JSON\n  ${indented(jsonOf(request), '  ')}\nJSON`]),
  ]
  return `require 'net/http'

uri = URI("#{ENV.fetch('LICENSING_URL')}${addressOf(request)}")
request = Net::HTTP::${kind}.new(uri)
${lines.map((line) => `${line}\n`).join('')}response = Net::HTTP.start(uri.hostname, uri.port, use_ssl: uri.scheme == 'https') { |http| http.request(request) }
puts response.code, response.body`
}
