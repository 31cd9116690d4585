-- ARGV: keep (ms), "", "", "h", "". Returns {held, reserved, charged, name, spent,
-- name, spent...}, or 1 when it has to be asked again because many leases end.
if call('EXISTS', H) == 0 then return { 0, '0', '0' } end
local n = 0
--include read
if late then return 1 end
local reserved, res = 0, {}
local all = call('HGETALL', H)
for i = 1, #all, 2 do
  local k, y = all[i], all[i + 1]
  local kind = string.sub(k, 1, 2)
  if kind == 'r:' and string.sub(y, 1, 1) == 'L' then
    local cost = unpick('>d', y, 2)
    reserved = reserved + cost
  elseif kind == 'w:' then
    local x = y
    --include drain
    res[#res + 1] = string.sub(k, 3)
    res[#res + 1] = format('%.17g', s)
  end
end
return { call('ZCOUNT', Z, '-inf', '4e15'), format('%.17g', reserved), format('%.17g', charged), unpack(res) }
