-- ARGV: keep (ms); cost, used, token, lease (us), concurrency in one string;
-- names; "h"; "r:<id>"; "w:<name>" of each window; then rate and burst of each in
-- one string. Returns 0, or {verdict, window from 1, wait in us}. A wait of 0
-- means that no time can be named.
local n = (#ARGV - 5) / 2
if #ARGV[2] ~= 40 then return { 6, 0, 0 } end
local cost, used, _, lease, cap = unpick('>ddddd', ARGV[2])
-- Written so that what is not a number is refused.
if not (cost >= 1 and cost <= MAX and used >= 0 and used <= MAX and lease >= 1 and lease <= MAX and cap >= 0 and cap <= MAX) then
  return { 6, 0, 0 }
end
--include read

if v[2] then
  if string.byte(v[2]) ~= 76 then return { 2, 0, 0 } end
  if string.sub(v[2], 18, 25) == string.sub(ARGV[2], 17, 24) then return 0 end -- our own call, made again
  return { 1, 0, 0 }
end

local out, wait, which, changed = {}, 0, 0, false
for k = 1, n do
  local rate, burst = unpick('>dd', ARGV[5 + n + k])
  if not (rate >= 0 and rate <= MAX and burst >= 0 and burst <= MAX) then return { 6, k, 0 } end
  if cost > burst then return { 5, k, 0 } end
  local x = v[2 + k]
  --include drain
  if r ~= rate then changed = true end
  out[2 * k - 1], out[2 * k] = ARGV[5 + k], pack('>ddd', s + cost, a, rate)
  local lack = cost - (burst - s)
  if lack > 0 and wait >= 0 then
    local d = -1
    if rate > 0 then
      d = math.min(math.ceil((lack + (s + cost) * 8.9e-16) / rate * 1000000) + 1, 86400000000)
    end
    if d < 0 or d > wait then wait, which = d, k end
  end
end
local verdict = 0
if wait ~= 0 then
  verdict = 3
elseif cap > 0 then
  local from = '-inf'
  if late then from = format('%d', now + 1) end
  if call('ZCOUNT', Z, from, '4e15') >= cap then verdict, wait = 4, 1000000 end
end
if verdict ~= 0 then
  if changed then -- what drains from now on drains at the new rates
    for k = 1, n do
      local x = v[2 + k]
      --include drain
      out[2 * k] = pack('>dd', s, a) .. string.sub(ARGV[5 + n + k], 1, 8)
    end
    call('HSET', H, 'h', pack('>dddd', charged, due, fade, now), unpack(out))
    call('PEXPIRE', H, keep)
    call('PEXPIRE', Z, keep)
  end
  return { verdict, which, math.max(wait, 0) }
end

local ends = now + lease
call('ZADD', Z, format('%d', ends), id)
out[2 * n + 1], out[2 * n + 2] = id, 'L' .. string.sub(ARGV[2], 1, 24) .. ARGV[3]
if ends < due or now - set > 600000000 then
  call('HSET', H, 'h', pack('>dddd', charged, math.min(due, ends), fade, now), unpack(out))
  call('PEXPIRE', H, keep)
  call('PEXPIRE', Z, keep)
else
  call('HSET', H, unpack(out))
end
return 0
